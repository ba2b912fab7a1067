! A ring of messages by column and by row; with the argument `fault` rank 1 changes a number before the second.
program messages
    use mpi
    implicit none
    integer :: ierr, rank, size, right, left, columns, step, status(MPI_STATUS_SIZE), requests(2)
    double precision :: a(8, 8), b(8), total
    character(len=8) :: fault
    fault = ''
    if (command_argument_count() > 0) call get_command_argument(1, fault)
    call MPI_Init(ierr)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
    call MPI_Comm_size(MPI_COMM_WORLD, size, ierr)
    call MPI_Type_vector(8, 1, 8, MPI_DOUBLE_PRECISION, columns, ierr)
    call MPI_Type_commit(columns, ierr)
    right = mod(rank + 1, size)
    left = mod(rank + size - 1, size)
    a = rank
    do step = 1, 3
        if (fault == 'fault' .and. rank == 1 .and. step == 2) a(1, 4) = 7
        call MPI_Irecv(b, 8, MPI_DOUBLE_PRECISION, left, step, MPI_COMM_WORLD, requests(1), ierr)
        call MPI_Isend(a(1, 1), 1, columns, right, step, MPI_COMM_WORLD, requests(2), ierr)
        call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, ierr)
        a(:, step) = b
        total = sum(a)
        call MPI_Allreduce(MPI_IN_PLACE, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
    end do
    call MPI_Type_free(columns, ierr)
    call MPI_Finalize(ierr)
end program
