! Arrays of a fixed size in the main program, a block of columns for each rank; new values go to an array of their own.
!
!     columns right|dropped [at|inferred] at: the ranks say themselves where their blocks lie
!                                         inferred: no line says how wide ghosts are
program columns
    use mpi
    use weft
    implicit none
    integer, parameter :: n = 8, m = 4, steps = 6
    real :: old(n, m + 2), new(n, m + 2)
    integer :: rank, ranks, left, right, i, j, step, error
    character(8) :: mode, grid

    call MPI_Init(error)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
    call get_command_argument(1, mode)
    call get_command_argument(2, grid)
    left = merge(rank - 1, MPI_PROC_NULL, rank > 0)
    right = merge(rank + 1, MPI_PROC_NULL, rank < ranks - 1)
    if (grid == "at") then
        call weft_part_at("old", old, [0, 1], lower=[1, rank*m + 1], periodic=[.false., .false.])
        call weft_part_at("new", new, [0, 1], lower=[1, rank*m + 1], periodic=[.false., .false.])
    else if (grid == "inferred") then
        call weft_part("old", old, comm=MPI_COMM_WORLD)
        call weft_part("new", new, comm=MPI_COMM_WORLD)
    else
        call weft_part("old", old, [0, 1], MPI_COMM_WORLD)
        call weft_part("new", new, [0, 1], MPI_COMM_WORLD)
    end if
    do j = 1, m + 2
        do i = 1, n
            old(i, j) = 0.5 * i + (rank * m + j)**2
        end do
    end do
    do step = 1, steps
        call MPI_Sendrecv(old(1, 2), n, MPI_REAL, left, 1, old(1, m + 2), n, MPI_REAL, right, 1, MPI_COMM_WORLD, &
                          MPI_STATUS_IGNORE, error)
        if (mode == "right") then
            call MPI_Sendrecv(old(1, m + 1), n, MPI_REAL, right, 2, old(1, 1), n, MPI_REAL, left, 2, MPI_COMM_WORLD, &
                              MPI_STATUS_IGNORE, error)
        else
            call MPI_Sendrecv(old(1, m + 1), n, MPI_REAL, right, 2, new(1, 1), n, MPI_REAL, left, 2, MPI_COMM_WORLD, &
                              MPI_STATUS_IGNORE, error)
        end if
        do j = 2, m + 1
            do i = 2, n - 1
                new(i, j) = (old(i, j + 1) + old(i, j - 1) + old(i + 1, j) + old(i - 1, j))*0.25 ! the star
            end do
        end do
        do j = 2, m + 1
            do i = 2, n - 1
                old(i, j) = new(i, j)
            end do
        end do
    end do
    if (rank == 0) print *, old(2, 2)
    call MPI_Finalize(error)
end program
