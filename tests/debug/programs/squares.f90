! Each rank adds up squares, then all add theirs: the same program as squares.c, squares.cpp and squares.py.
module sums
contains
  integer function square(k) result(res)
    integer, intent(in) :: k
    res = k * k
  end function

  integer function add(n) result(total)
    integer, intent(in) :: n
    integer :: k
    total = 0
    do k = 1, n
      total = total + square(k) ! here
    end do
  end function
end module

program squares
  use mpi
  use sums
  implicit none
  integer :: me, mine, all, ierr
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, ierr)
  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  mine = add(4 + me)
  call MPI_Allreduce(mine, all, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  if (me == 0) print '(a, i0)', 'all ', all
  call MPI_Finalize(ierr)
end program
