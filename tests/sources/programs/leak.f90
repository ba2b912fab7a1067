program leak
  use mpi
  implicit none
  integer :: rank, ierr, x, r
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  x = 1
  if (rank == 0) then
    call MPI_Isend(x, 1, MPI_INTEGER, & ! to whom
      1, 99, MPI_COMM_WORLD, r, ierr)
  else
    call MPI_Recv(x, 1, MPI_INTEGER, 0, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
  end if
  call MPI_Finalize(ierr)
end program leak
