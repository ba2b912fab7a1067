! The same in Fortran: mpif.h, or the module that MODULE names.
subroutine begin()
#ifdef MODULE
  use MODULE
  implicit none
#else
  implicit none
  include 'mpif.h'
#endif
  integer :: failed
  call MPI_Init(failed)
end subroutine

subroutine finish()
#ifdef MODULE
  use MODULE
  implicit none
#else
  implicit none
  include 'mpif.h'
#endif
  integer :: failed
  call MPI_Finalize(failed)
end subroutine

subroutine work()
#ifdef MODULE
  use MODULE
  implicit none
#else
  implicit none
  include 'mpif.h'
#endif
  integer :: one, all, ranks, failed
  one = 1
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, failed)
  call MPI_Allreduce(one, all, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, failed)
  if (all /= ranks) call MPI_Abort(MPI_COMM_WORLD, 4, failed)
end subroutine
