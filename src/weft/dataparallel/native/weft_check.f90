! What `weft check` calls from a marked Fortran program: the interfaces of fortran.c.
! Any variable is passed by its descriptor; its type, sizes and place are read there.
! axis, coefficient, offset, low, high, kinds: one number for each dimension. base is left out where there is no memory.
module weft_check
  use, intrinsic :: iso_c_binding, only: weft_check_int => c_int, weft_check_long => c_int64_t, weft_check_char => c_char
  implicit none
  interface
    subroutine weft_check_program() bind(C, name="weft_fortran_program")
    end subroutine
    subroutine weft_check_data(data, base) bind(C, name="weft_fortran_register_variable")
      import :: weft_check_int
      integer(weft_check_int), value :: data
      type(*), dimension(..), target :: base
    end subroutine
    subroutine weft_check_array(data, role, name, lower, base) bind(C, name="weft_fortran_register_array")
      import :: weft_check_int, weft_check_long, weft_check_char
      integer(weft_check_int), value :: data, role
      character(kind=weft_check_char), intent(in) :: name(*)
      integer(weft_check_long), intent(in) :: lower(*)
      type(*), dimension(..), target :: base
    end subroutine
    subroutine weft_check_clear(base) bind(C, name="weft_fortran_clear_variable")
      type(*), dimension(..), target :: base
    end subroutine
    subroutine weft_check_scalar(data, base) bind(C, name="weft_fortran_register_unset_scalar")
      import :: weft_check_int
      integer(weft_check_int), value :: data
      type(*), dimension(..), target :: base
    end subroutine
    subroutine weft_check_printed(site, base) bind(C, name="weft_fortran_check_printed_variable")
      import :: weft_check_int
      integer(weft_check_int), value :: site
      type(*), dimension(..), target :: base
    end subroutine
    subroutine weft_check_template(data, once, rank, low, high) bind(C, name="weft_fortran_register_template")
      import :: weft_check_int, weft_check_long
      integer(weft_check_int), value :: data, once, rank
      integer(weft_check_long), intent(in) :: low(*), high(*)
    end subroutine
    subroutine weft_check_blocks(data, dimension, sizes, base) bind(C, name="weft_fortran_set_block_sizes")
      import :: weft_check_int
      integer(weft_check_int), value :: data, dimension
      type(*), dimension(..), target :: sizes
      type(*), dimension(..), target, optional :: base
    end subroutine
    subroutine weft_check_distribute(construct, data, once, rank, kinds, tasks, task, base) &
        bind(C, name="weft_fortran_distribute_array")
      import :: weft_check_int, weft_check_long
      integer(weft_check_int), value :: construct, data, once, rank, tasks
      integer(weft_check_int), intent(in) :: kinds(*)
      integer(weft_check_long), value :: task
      type(*), dimension(..), target, optional :: base
    end subroutine
    subroutine weft_check_align(construct, data, once, target, rank, axis, coefficient, offset, base, goal) &
        bind(C, name="weft_fortran_align_array")
      import :: weft_check_int, weft_check_long
      integer(weft_check_int), value :: construct, data, once, target, rank
      integer(weft_check_int), intent(in) :: axis(*)
      integer(weft_check_long), intent(in) :: coefficient(*), offset(*)
      type(*), dimension(..), target, optional :: base, goal
    end subroutine
    subroutine weft_check_shadow(data, rank, low, high, base) bind(C, name="weft_fortran_set_shadow_widths")
      import :: weft_check_int, weft_check_long
      integer(weft_check_int), value :: data, rank
      integer(weft_check_long), intent(in) :: low(*), high(*)
      type(*), dimension(..), target :: base
    end subroutine

    subroutine weft_check_loop_begin(construct, rank, flags) bind(C, name="weft_check_loop_begin")
      import :: weft_check_int
      integer(weft_check_int), value :: construct, rank, flags
    end subroutine
    ! what: 0 on, 1 remote_access, 2 tie, 3 remote_access before a statement, 4 consistent; group: of remote_access, 0: none
    subroutine weft_check_mapped(what, group, data, rank, axis, coefficient, offset, base) &
        bind(C, name="weft_fortran_add_mapping_clause")
      import :: weft_check_int, weft_check_long
      integer(weft_check_int), value :: what, group, data, rank
      integer(weft_check_int), intent(in) :: axis(*)
      integer(weft_check_long), intent(in) :: coefficient(*), offset(*)
      type(*), dimension(..), target, optional :: base
    end subroutine
    subroutine weft_check_loop_index(base) bind(C, name="weft_fortran_add_loop_index")
      type(*), dimension(..), target :: base
    end subroutine
    subroutine weft_check_task_index(base) bind(C, name="weft_fortran_task_index")
      type(*), dimension(..), target :: base
    end subroutine
    subroutine weft_check_loop_private(data, base) bind(C, name="weft_fortran_add_private_clause")
      import :: weft_check_int
      integer(weft_check_int), value :: data
      type(*), dimension(..), target :: base
    end subroutine
    subroutine weft_check_loop_reduction(data, operation, base, location) bind(C, name="weft_fortran_add_reduction_clause")
      import :: weft_check_int
      integer(weft_check_int), value :: data, operation
      type(*), dimension(..), target :: base
      type(*), dimension(..), target, optional :: location
    end subroutine
    subroutine weft_check_loop_reduction_group(group) bind(C, name="weft_check_loop_reduction_group")
      import :: weft_check_int
      integer(weft_check_int), value :: group
    end subroutine
    ! what: 0 across, 1 shadow_renew, 2 shadow_compute, 3 put into shadow group `group`; rank 0: the declared widths
    subroutine weft_check_edges(what, construct, group, data, corner, rank, low, high, base) &
        bind(C, name="weft_fortran_add_edges_clause")
      import :: weft_check_int, weft_check_long
      integer(weft_check_int), value :: what, construct, group, data, corner, rank
      integer(weft_check_long), intent(in) :: low(*), high(*)
      type(*), dimension(..), target, optional :: base
    end subroutine
    subroutine weft_check_loop_start() bind(C, name="weft_check_loop_start")
    end subroutine
    function weft_check_skips(rank, indices) bind(C, name="weft_check_skips")
      import :: weft_check_int, weft_check_long
      integer(weft_check_int), value :: rank
      integer(weft_check_long), intent(in) :: indices(*)
      integer(weft_check_int) :: weft_check_skips
    end function
    function weft_check_skips1(i) bind(C, name="weft_check_skips1")
      import :: weft_check_int, weft_check_long
      integer(weft_check_long), value :: i
      integer(weft_check_int) :: weft_check_skips1
    end function
    function weft_check_skips2(i, j) bind(C, name="weft_check_skips2")
      import :: weft_check_int, weft_check_long
      integer(weft_check_long), value :: i, j
      integer(weft_check_int) :: weft_check_skips2
    end function
    function weft_check_skips3(i, j, k) bind(C, name="weft_check_skips3")
      import :: weft_check_int, weft_check_long
      integer(weft_check_long), value :: i, j, k
      integer(weft_check_int) :: weft_check_skips3
    end function
    subroutine weft_check_iteration(rank, indices) bind(C, name="weft_check_iteration")
      import :: weft_check_int, weft_check_long
      integer(weft_check_int), value :: rank
      integer(weft_check_long), intent(in) :: indices(*)
    end subroutine
    subroutine weft_check_iteration1(i) bind(C, name="weft_check_iteration1")
      import :: weft_check_long
      integer(weft_check_long), value :: i
    end subroutine
    subroutine weft_check_iteration2(i, j) bind(C, name="weft_check_iteration2")
      import :: weft_check_long
      integer(weft_check_long), value :: i, j
    end subroutine
    subroutine weft_check_iteration3(i, j, k) bind(C, name="weft_check_iteration3")
      import :: weft_check_long
      integer(weft_check_long), value :: i, j, k
    end subroutine
    subroutine weft_check_loop_end(construct) bind(C, name="weft_check_loop_end")
      import :: weft_check_int
      integer(weft_check_int), value :: construct
    end subroutine

    subroutine weft_check_shadow_start(construct, group) bind(C, name="weft_check_shadow_start")
      import :: weft_check_int
      integer(weft_check_int), value :: construct, group
    end subroutine
    subroutine weft_check_shadow_wait(construct, group) bind(C, name="weft_check_shadow_wait")
      import :: weft_check_int
      integer(weft_check_int), value :: construct, group
    end subroutine
    subroutine weft_check_consistent_start(construct, group) bind(C, name="weft_check_consistent_start")
      import :: weft_check_int
      integer(weft_check_int), value :: construct, group
    end subroutine
    subroutine weft_check_consistent_wait(construct, group) bind(C, name="weft_check_consistent_wait")
      import :: weft_check_int
      integer(weft_check_int), value :: construct, group
    end subroutine
    subroutine weft_check_copy_start(construct, group) bind(C, name="weft_check_copy_start")
      import :: weft_check_int
      integer(weft_check_int), value :: construct, group
    end subroutine
    subroutine weft_check_copy_wait(construct, group) bind(C, name="weft_check_copy_wait")
      import :: weft_check_int
      integer(weft_check_int), value :: construct, group
    end subroutine
    subroutine weft_check_owners(data, dimension, owners, base) bind(C, name="weft_fortran_set_owners")
      import :: weft_check_int
      integer(weft_check_int), value :: data, dimension
      type(*), dimension(..), target :: owners
      type(*), dimension(..), target, optional :: base
    end subroutine
    subroutine weft_check_owner_derived(data, dimension, element, goal_data, axis, index, base, goal) &
        bind(C, name="weft_fortran_set_derived_owner")
      import :: weft_check_int, weft_check_long
      integer(weft_check_int), value :: data, dimension, goal_data, axis
      integer(weft_check_long), value :: element, index
      type(*), dimension(..), target, optional :: base, goal
    end subroutine
    function weft_check_lower(data, dimension, base) bind(C, name="weft_fortran_lower")
      import :: weft_check_int, weft_check_long
      integer(weft_check_int), value :: data, dimension
      type(*), dimension(..), target, optional :: base
      integer(weft_check_long) :: weft_check_lower
    end function
    function weft_check_extent(data, dimension, base) bind(C, name="weft_fortran_extent")
      import :: weft_check_int, weft_check_long
      integer(weft_check_int), value :: data, dimension
      type(*), dimension(..), target, optional :: base
      integer(weft_check_long) :: weft_check_extent
    end function
    subroutine weft_check_edge_begin(construct, name, data, dimension, goal_data, axis, over, base, goal) &
        bind(C, name="weft_fortran_begin_edge")
      import :: weft_check_int
      integer(weft_check_int), value :: construct, name, data, dimension, goal_data, axis, over
      type(*), dimension(..), target, optional :: base, goal
    end subroutine
    subroutine weft_check_edge_element(index, element) bind(C, name="weft_check_edge_element")
      import :: weft_check_long
      integer(weft_check_long), value :: index, element
    end subroutine
    subroutine weft_check_edge_include(data, base) bind(C, name="weft_fortran_include_array_in_edge")
      import :: weft_check_int
      integer(weft_check_int), value :: data
      type(*), dimension(..), target :: base
    end subroutine
    subroutine weft_check_edge_end() bind(C, name="weft_check_edge_end")
    end subroutine
    subroutine weft_check_edge_renew(construct, name, data, base) bind(C, name="weft_fortran_renew_edge")
      import :: weft_check_int
      integer(weft_check_int), value :: construct, name, data
      type(*), dimension(..), target :: base
    end subroutine
    subroutine weft_check_localize(construct, data, goal_data, axis, base, goal) bind(C, name="weft_fortran_localize")
      import :: weft_check_int
      integer(weft_check_int), value :: construct, data, goal_data, axis
      type(*), dimension(..), target, optional :: base, goal
    end subroutine
    ! written: 1 what the copy writes, 0 what it reads
    subroutine weft_check_copied(construct, group, written, part) bind(C, name="weft_fortran_add_copied_section")
      import :: weft_check_int
      integer(weft_check_int), value :: construct, group, written
      type(*), dimension(..), target :: part
    end subroutine
    subroutine weft_check_reduction_start(construct, group) bind(C, name="weft_check_reduction_start")
      import :: weft_check_int
      integer(weft_check_int), value :: construct, group
    end subroutine
    subroutine weft_check_reduction_wait(construct, group) bind(C, name="weft_check_reduction_wait")
      import :: weft_check_int
      integer(weft_check_int), value :: construct, group
    end subroutine
    subroutine weft_check_remote_prefetch(construct, group) bind(C, name="weft_check_remote_prefetch")
      import :: weft_check_int
      integer(weft_check_int), value :: construct, group
    end subroutine
    subroutine weft_check_remote_reset(construct, group) bind(C, name="weft_check_remote_reset")
      import :: weft_check_int
      integer(weft_check_int), value :: construct, group
    end subroutine

    subroutine weft_check_own_begin(construct, data, rank, indices, base) bind(C, name="weft_fortran_begin_own_computation")
      import :: weft_check_int, weft_check_long
      integer(weft_check_int), value :: construct, data, rank
      integer(weft_check_long), intent(in) :: indices(*)
      type(*), dimension(..), target :: base
    end subroutine
    subroutine weft_check_own_end(construct) bind(C, name="weft_check_own_end")
      import :: weft_check_int
      integer(weft_check_int), value :: construct
    end subroutine
    subroutine weft_check_remote_begin(construct) bind(C, name="weft_check_remote_begin")
      import :: weft_check_int
      integer(weft_check_int), value :: construct
    end subroutine
    subroutine weft_check_remote_end(construct) bind(C, name="weft_check_remote_end")
      import :: weft_check_int
      integer(weft_check_int), value :: construct
    end subroutine
    subroutine weft_check_io_begin() bind(C, name="weft_check_io_begin")
    end subroutine
    subroutine weft_check_io_end() bind(C, name="weft_check_io_end")
    end subroutine

    subroutine weft_check_region_begin(construct) bind(C, name="weft_check_region_begin")
      import :: weft_check_int
      integer(weft_check_int), value :: construct
    end subroutine
    subroutine weft_check_region_start() bind(C, name="weft_check_region_start")
    end subroutine
    subroutine weft_check_region_end(construct) bind(C, name="weft_check_region_end")
      import :: weft_check_int
      integer(weft_check_int), value :: construct
    end subroutine
    subroutine weft_check_host_section_begin(construct) bind(C, name="weft_check_host_section_begin")
      import :: weft_check_int
      integer(weft_check_int), value :: construct
    end subroutine
    subroutine weft_check_host_section_end(construct) bind(C, name="weft_check_host_section_end")
      import :: weft_check_int
      integer(weft_check_int), value :: construct
    end subroutine
    ! what: 0 actual, 1 get_actual, else 10 + the direction of a region's data; rank 0: the whole; no base: everything
    subroutine weft_check_copies(what, construct, data, rank, low, high, base) bind(C, name="weft_fortran_handle_data_clause")
      import :: weft_check_int, weft_check_long
      integer(weft_check_int), value :: what, construct, data, rank
      integer(weft_check_long), intent(in) :: low(*), high(*)
      type(*), dimension(..), target, optional :: base
    end subroutine

    subroutine weft_check_task_array(tasks, lower, count) bind(C, name="weft_check_task_array")
      import :: weft_check_int, weft_check_long
      integer(weft_check_int), value :: tasks
      integer(weft_check_long), value :: lower, count
    end subroutine
    subroutine weft_check_task_map(construct, tasks, task, low, high) bind(C, name="weft_check_task_map")
      import :: weft_check_int, weft_check_long
      integer(weft_check_int), value :: construct, tasks
      integer(weft_check_long), value :: task, low, high
    end subroutine
    subroutine weft_check_task_region_begin(construct, tasks) bind(C, name="weft_check_task_region_begin")
      import :: weft_check_int
      integer(weft_check_int), value :: construct, tasks
    end subroutine
    subroutine weft_check_task_region_start() bind(C, name="weft_check_task_region_start")
    end subroutine
    subroutine weft_check_task_region_end(construct) bind(C, name="weft_check_task_region_end")
      import :: weft_check_int
      integer(weft_check_int), value :: construct
    end subroutine
    subroutine weft_check_task_begin(construct, task) bind(C, name="weft_check_task_begin")
      import :: weft_check_int, weft_check_long
      integer(weft_check_int), value :: construct
      integer(weft_check_long), value :: task
    end subroutine
    subroutine weft_check_task_end(construct) bind(C, name="weft_check_task_end")
      import :: weft_check_int
      integer(weft_check_int), value :: construct
    end subroutine
  end interface
end module weft_check
