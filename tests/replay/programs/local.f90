! Calls that wait for nobody, again and again from one place. Prints a hash of what MPI_Wtime gave.
program local
  use mpi
  implicit none
  integer :: rank, i, n, code
  double precision :: t(1000)
  integer(8) :: hash = 0
  call MPI_Init(code)
  do i = 1, 1000
    t(i) = MPI_Wtime()
  end do
  do i = 1, 7
    call MPI_Comm_size(MPI_COMM_WORLD, n, code)
  end do
  do i = 1, 8
    call MPI_Type_size(MPI_INTEGER, n, code)
  end do
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
  call MPI_Barrier(MPI_COMM_WORLD, code)
  do i = 1, 1000
    hash = ieor(ishftc(hash, 7), transfer(t(i), hash))
  end do
  write (*, '(a, i0, a, z16)') 'rank ', rank, ': ', hash
  call MPI_Finalize(code)
end program
