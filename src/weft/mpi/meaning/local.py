"""List the functions that work on objects of their caller and wait for nobody: their topics, and what they make and
free.
"""

from __future__ import annotations

from typing import Final

TOPICS: Final[dict[str, str]] = {
    "communicators": (
        "Comm_compare Comm_create_keyval Comm_delete_attr Comm_free_keyval Comm_get_attr Comm_get_info Comm_get_name"
        " Comm_group Comm_rank Comm_remote_group Comm_remote_size Comm_set_attr Comm_set_name Comm_size"
        " Comm_test_inter Attr_delete Attr_get Attr_put Keyval_create Keyval_free"
    ),
    "topologies": (
        "Cart_coords Cart_get Cart_map Cart_rank Cart_shift Cartdim_get Dims_create Dist_graph_neighbors"
        " Dist_graph_neighbors_count Graph_get Graph_map Graph_neighbors Graph_neighbors_count Graphdims_get Topo_test"
    ),
    "groups": (
        "Group_compare Group_difference Group_excl Group_free Group_from_session_pset Group_incl Group_intersection"
        " Group_range_excl Group_range_incl Group_rank Group_size Group_translate_ranks Group_union"
    ),
    "datatypes": (
        "Type_commit Type_contiguous Type_create_darray Type_create_f90_complex Type_create_f90_integer"
        " Type_create_f90_real Type_create_hindexed Type_create_hindexed_block Type_create_hvector"
        " Type_create_indexed_block Type_create_keyval Type_create_resized Type_create_struct Type_create_subarray"
        " Type_delete_attr Type_dup Type_extent Type_free Type_free_keyval Type_get_attr Type_get_contents"
        " Type_get_envelope Type_get_extent Type_get_extent_x Type_get_name Type_get_true_extent"
        " Type_get_true_extent_x Type_get_value_index Type_hindexed Type_hvector Type_indexed Type_lb Type_match_size"
        " Type_set_attr Type_set_name Type_size Type_size_x Type_struct Type_ub Type_vector Register_datarep"
    ),
    "packing": "Pack Pack_external Pack_external_size Pack_size Unpack Unpack_external",
    "statuses": (
        "Get_count Get_elements Get_elements_x Status_set_cancelled Status_set_elements Status_set_elements_x"
        " Test_cancelled"
    ),
    "operations": "Op_commutative Op_create Op_free Reduce_local",
    "windows": (
        "Win_attach Win_create_keyval Win_delete_attr Win_detach Win_free_keyval Win_get_attr Win_get_group"
        " Win_get_info Win_get_name Win_set_attr Win_set_name Win_shared_query"
    ),
    "files": (
        "File_delete File_get_amode File_get_atomicity File_get_byte_offset File_get_group File_get_info"
        " File_get_position File_get_position_shared File_get_size File_get_type_extent File_get_view File_seek"
    ),
    "info objects": (
        "Info_create Info_create_env Info_delete Info_dup Info_free Info_get Info_get_nkeys Info_get_nthkey"
        " Info_get_string Info_get_valuelen Info_set"
    ),
    "errors": (
        "Add_error_class Add_error_code Add_error_string Remove_error_class Remove_error_code Remove_error_string"
        " Error_class Error_string Errhandler_create Errhandler_free Errhandler_get Errhandler_set"
        " Comm_call_errhandler Comm_create_errhandler Comm_get_errhandler Comm_set_errhandler"
        " File_call_errhandler File_create_errhandler File_get_errhandler File_set_errhandler"
        " Session_call_errhandler Session_create_errhandler Session_get_errhandler Session_set_errhandler"
        " Win_call_errhandler Win_create_errhandler Win_get_errhandler Win_set_errhandler"
    ),
    "sessions": "Session_get_info Session_get_nth_pset Session_get_num_psets Session_get_pset_info",
    "environment": (
        "Address Alloc_mem Finalized Free_mem Get_address Get_hw_resource_info Get_library_version Get_processor_name"
        " Initialized Is_thread_main Query_thread Wtick Wtime"
    ),
}
"""The functions by what they are about."""

MAKES: Final[dict[str, str]] = {
    "GROUP": (
        "Comm_group Comm_remote_group Win_get_group File_get_group Group_from_session_pset Group_incl Group_excl"
        " Group_union Group_intersection Group_difference Group_range_incl Group_range_excl"
    ),
    "DATATYPE": (
        "Type_contiguous Type_vector Type_create_hvector Type_indexed Type_create_hindexed Type_create_struct"
        " Type_create_indexed_block Type_create_hindexed_block Type_create_subarray Type_create_darray Type_dup"
        " Type_create_resized Type_hvector Type_hindexed Type_struct"
    ),
    "OP": "Op_create",
    "INFO": (
        "Info_create Info_dup Info_create_env Comm_get_info Win_get_info File_get_info Session_get_info"
        " Session_get_pset_info Get_hw_resource_info"
    ),
    "ERRHANDLER": (
        "Comm_create_errhandler Win_create_errhandler File_create_errhandler Session_create_errhandler"
        " Errhandler_create"
    ),
}
"""By class of object the functions that make one, which is their caller's to free."""

FREES: Final[dict[str, str]] = {
    "GROUP": "Group_free", "DATATYPE": "Type_free", "OP": "Op_free", "INFO": "Info_free",
    "ERRHANDLER": "Errhandler_free",
}  # fmt: skip

GIVES_KNOWN: Final = (
    "Type_get_contents File_get_view Errhandler_get Comm_get_errhandler File_get_errhandler Session_get_errhandler"
    " Win_get_errhandler"
)
"""The functions whose result may have existed before."""

GIVES_LASTING: Final = (
    "Type_create_f90_complex Type_create_f90_integer Type_create_f90_real Type_match_size Type_get_value_index"
)
"""The functions that return a datatype which MPI has for parameters of Fortran's kinds, for a size or for a pair
(18.1.9, 5.1.11)."""

ASKED_BY_FORTRAN: Final = (
    "Comm_size Comm_rank Comm_remote_size Comm_test_inter Type_size Type_size_x Type_get_extent Type_get_extent_x"
    " Topo_test Cartdim_get Graphdims_get Graph_neighbors_count Dist_graph_neighbors_count"
)

ANYTIME: Final = (
    "Initialized Finalized Query_thread Is_thread_main Get_library_version Wtime Wtick Info_create Info_create_env"
    " Info_set Info_delete Info_get Info_get_string Info_get_valuelen Info_get_nkeys Info_get_nthkey Info_dup"
    " Info_free Error_class Error_string Add_error_class Add_error_code Add_error_string Remove_error_class"
    " Remove_error_code Remove_error_string Comm_create_errhandler Win_create_errhandler File_create_errhandler"
    " Session_create_errhandler Errhandler_free"
)
"""May be called before MPI is initialised, after it is finalised, and from any thread (11.4.1)."""

FOLDED: Final = (
    "Comm_compare Comm_get_attr Comm_rank Comm_remote_size Comm_size Comm_test_inter Attr_get Cartdim_get Cart_shift"
    " Dist_graph_neighbors_count Graph_neighbors_count Graphdims_get Topo_test Group_compare Group_rank Group_size"
    " Type_extent Type_get_attr Type_get_envelope Type_get_extent Type_get_extent_x Type_get_true_extent"
    " Type_get_true_extent_x Type_lb Type_size Type_size_x Type_ub Get_count Get_elements Get_elements_x"
    " Test_cancelled Op_commutative Win_get_attr Address Finalized Get_address Get_library_version"
    " Get_processor_name Initialized Is_thread_main Query_thread Error_class Wtick Wtime"
)
"""Wait for nobody, change nothing, and have no count, array or string among what goes in: programs repeat them."""
