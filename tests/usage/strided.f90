! Every second element goes round a ring of two: the binding makes a datatype before each call that it makes.
program strided
  use mpi_f08
  implicit none
  integer :: me
  real :: a(100)
  type(MPI_Request) :: q
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  a = me
  call MPI_Irecv(a(1:100:2), 50, MPI_REAL, 1 - me, 7, MPI_COMM_WORLD, q)
  call MPI_Send(a(2:100:2), 50, MPI_REAL, 1 - me, 7, MPI_COMM_WORLD)
  call MPI_Wait(q, MPI_STATUS_IGNORE)
  call MPI_Bcast(a(1:100:3), 34, MPI_REAL, 0, MPI_COMM_WORLD)
  call MPI_Finalize()
end program
