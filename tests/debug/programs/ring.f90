! A field goes round a ring of ranks twice; each adds its number.
program ring
  use mpi
  implicit none
  integer :: rank, n, ierr, token, step
  integer :: status(MPI_STATUS_SIZE)
  real(8) :: field(4)
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, n, ierr)
  token = 0
  field = rank
  do step = 1, 2
    if (rank == 0) then
      call MPI_Send(field, 4, MPI_DOUBLE_PRECISION, 1, step, MPI_COMM_WORLD, ierr)
      call MPI_Recv(field, 4, MPI_DOUBLE_PRECISION, n - 1, step, MPI_COMM_WORLD, status, ierr)
    else
      call MPI_Recv(field, 4, MPI_DOUBLE_PRECISION, rank - 1, step, MPI_COMM_WORLD, status, ierr)
      field = field + rank
      call MPI_Send(field, 4, MPI_DOUBLE_PRECISION, mod(rank + 1, n), step, MPI_COMM_WORLD, ierr)
    end if
  end do
  print *, field
  call MPI_Finalize(ierr)
end program
