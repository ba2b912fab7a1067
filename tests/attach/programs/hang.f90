! Rank 1 waits in a receive from rank 2, all others are in a barrier; they never go on.
program hang
  use mpi
  implicit none
  integer :: rank, ierror
  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call exchange(rank + 1)
  call MPI_Finalize(ierror)
contains
  subroutine exchange(from)
    integer, intent(in) :: from
    integer :: values(2), error
    if (from == 2) then
      call MPI_Recv(values, 2, MPI_INTEGER, from, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE, error)
    end if
    call MPI_Barrier(MPI_COMM_WORLD, error)
  end subroutine
end program
