! What Fortran's library reads and writes of a buffer that a pending receive has; with "late" behind the wait.
program library
   use mpi
   implicit none
   integer :: ierr, rank, request
   real, asynchronous :: y(8, 8)
   character(len=8) :: word
   call MPI_Init(ierr)
   call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
   call get_command_argument(1, word)
   y = rank + 1
   if (rank == 0) then
      call MPI_Send(y, 64, MPI_REAL, 1, 0, MPI_COMM_WORLD, ierr)
   else
      call MPI_Irecv(y, 64, MPI_REAL, 0, 0, MPI_COMM_WORLD, request, ierr)
      if (word /= 'late') call used
      call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
      if (word == 'late') call used
   end if
   call MPI_Finalize(ierr)
contains
   subroutine used
      character(len=80) :: text
      print *, y(2, 3) ! LOAD
      write (text, '(8f6.1)') y(3, :) ! LOAD
      read (text, *) y(1, 1) ! STORE
      read (text, *) y(4, 1:3) ! STORE
   end subroutine used
end program library
