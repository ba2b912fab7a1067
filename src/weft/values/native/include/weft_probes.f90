! Probes for Fortran: values that `weft run` writes down and `weft compare` holds against another run's.
!
!     use weft                                        ! gfortran $(weft probes --fortran) prog.f90 ...
!
!     do i = 1, steps
!         call weft_loop("sweep", i)                  ! iteration i begins; the one before has ended
!         call weft_probe("residual", residual)       ! a number, or an array of any type, kind and rank
!         call weft_probe("a", a(1:n, 1:m), of="A", lower=[first, 1])
!     end do
!     call weft_end("sweep")
!     call weft_part("u", u, [1, 1], comm)            ! an array with ghost cells, before it is filled
!
! Nothing is linked; without `weft run` each call is a test of one variable.
module weft
    use, intrinsic :: iso_c_binding
    implicit none
    private
    public :: weft_probe, weft_loop, weft_region, weft_end, weft_part, weft_part_at

    abstract interface
        subroutine takes_array(name, length, values, of, of_length, lower, lowers) bind(c)
            import
            character(kind=c_char), intent(in) :: name(*), of(*)
            integer(c_int64_t), value :: length, of_length, lowers
            type(*), dimension(..), intent(in) :: values
            integer(c_int64_t), intent(in) :: lower(*)
        end subroutine
        subroutine takes_part(name, length, values, halo, halos, comm) bind(c)
            import
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int64_t), value :: length, halos
            type(*), dimension(..), intent(in) :: values
            integer(c_int64_t), intent(in) :: halo(*)
            integer(c_int), value :: comm
        end subroutine
        subroutine takes_part_at(name, length, values, halo, halos, lower, periodic) bind(c)
            import
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int64_t), value :: length, halos
            type(*), dimension(..), intent(in) :: values
            integer(c_int64_t), intent(in) :: halo(*), lower(*), periodic(*)
        end subroutine
        subroutine takes_scope(kind, name, length, index) bind(c)
            import
            integer(c_int), value :: kind
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int64_t), value :: length, index
        end subroutine
    end interface

    interface
        function weft_dlopen(path, mode) bind(c, name="dlopen")
            import
            character(kind=c_char), intent(in) :: path(*)
            integer(c_int), value :: mode
            type(c_ptr) :: weft_dlopen
        end function
        function weft_dlsym(library, name) bind(c, name="dlsym")
            import
            type(c_ptr), value :: library
            character(kind=c_char), intent(in) :: name(*)
            type(c_funptr) :: weft_dlsym
        end function
    end interface

    logical, save :: asked = .false.
    procedure(takes_array), pointer, save :: array_taken => null()
    procedure(takes_scope), pointer, save :: scope_taken => null()
    procedure(takes_part), pointer, save :: part_taken => null()
    procedure(takes_part_at), pointer, save :: part_at_taken => null()

contains

    subroutine ask()
        character(4096) :: path
        integer :: length
        type(c_ptr) :: library
        type(c_funptr) :: found
        asked = .true.
        call get_environment_variable("WEFT_INTERNAL_VALUES_LIBRARY", path, length)
        if (length == 0 .or. length >= len(path)) return
        library = weft_dlopen(path(1:length)//c_null_char, 2_c_int)
        if (.not. c_associated(library)) return
        found = weft_dlsym(library, "weft_fortran_probe"//c_null_char)
        if (c_associated(found)) call c_f_procpointer(found, array_taken)
        found = weft_dlsym(library, "weft_fortran_scope"//c_null_char)
        if (c_associated(found)) call c_f_procpointer(found, scope_taken)
        found = weft_dlsym(library, "weft_fortran_part"//c_null_char)
        if (c_associated(found)) call c_f_procpointer(found, part_taken)
        found = weft_dlsym(library, "weft_fortran_part_at"//c_null_char)
        if (c_associated(found)) call c_f_procpointer(found, part_at_taken)
    end subroutine

    !> Values at this place. `lower`: the index of the first of them in the array `of` that all ranks share, from 1 on.
    subroutine weft_probe(name, values, of, lower)
        character(*), intent(in) :: name
        type(*), dimension(..), intent(in) :: values
        character(*), intent(in), optional :: of
        integer, intent(in), optional :: lower(:)
        integer(c_int64_t) :: from(15)
        integer :: n
        if (.not. asked) call ask()
        if (.not. associated(array_taken)) return
        n = 0
        if (present(lower)) n = min(size(lower), 15)
        if (n > 0) from(1:n) = lower(1:n)
        if (present(of)) then
            call array_taken(name, len(name, c_int64_t), values, of, len(of, c_int64_t), from, int(n, c_int64_t))
        else
            call array_taken(name, len(name, c_int64_t), values, name, 0_c_int64_t, from, int(n, c_int64_t))
        end if
    end subroutine

    !> A whole array whose outermost elements, `halo` of them at both ends of each dimension, are copies of what other ranks
    !> of the communicator own (with mpi_f08 it is comm%mpi_val). Without `halo` receives tell how many.
    subroutine weft_part(name, values, halo, comm)
        character(*), intent(in) :: name
        type(*), dimension(..), intent(in) :: values
        integer, intent(in), optional :: halo(:)
        integer, intent(in) :: comm
        integer(c_int64_t) :: widths(15)
        integer :: n
        if (.not. asked) call ask()
        if (.not. associated(part_taken)) return
        n = 0
        if (present(halo)) n = min(size(halo), 15)
        if (n > 0) widths(1:n) = halo(1:n)
        call part_taken(name, len(name, c_int64_t), values, widths, int(n, c_int64_t), int(comm, c_int))
    end subroutine

    !> The same where no communicator knows the grid: `lower` is the index, from 1 on, that the first cell which this rank owns
    !> has in the array that all share; `periodic` says which dimensions go round.
    subroutine weft_part_at(name, values, halo, lower, periodic)
        character(*), intent(in) :: name
        type(*), dimension(..), intent(in) :: values
        integer, intent(in), optional :: halo(:)
        integer, intent(in) :: lower(:)
        logical, intent(in) :: periodic(:)
        integer(c_int64_t) :: widths(15), first(15), rounds(15)
        integer :: n, given
        if (.not. asked) call ask()
        if (.not. associated(part_at_taken)) return
        n = min(size(lower), size(periodic), 15)
        given = 0
        if (present(halo)) then
            n = min(n, size(halo))
            given = n
            widths(1:n) = halo(1:n)
        end if
        first(1:n) = lower(1:n) - 1
        rounds(1:n) = merge(1, 0, periodic(1:n))
        call part_at_taken(name, len(name, c_int64_t), values, widths, int(given, c_int64_t), first, rounds)
    end subroutine

    !> Iteration `index` of the loop `name` begins; an earlier one that is still open has ended.
    subroutine weft_loop(name, index)
        character(*), intent(in) :: name
        integer, intent(in) :: index
        if (.not. asked) call ask()
        if (associated(scope_taken)) call scope_taken(2_c_int, name, len(name, c_int64_t), int(index, c_int64_t))
    end subroutine

    !> A part of the program begins that is no loop: a procedure, a phase.
    subroutine weft_region(name)
        character(*), intent(in) :: name
        if (.not. asked) call ask()
        if (associated(scope_taken)) call scope_taken(3_c_int, name, len(name, c_int64_t), 0_c_int64_t)
    end subroutine

    !> The loop or region `name` has ended.
    subroutine weft_end(name)
        character(*), intent(in) :: name
        if (.not. asked) call ask()
        if (associated(scope_taken)) call scope_taken(5_c_int, name, len(name, c_int64_t), 0_c_int64_t)
    end subroutine
end module
