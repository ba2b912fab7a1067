program tied
  use omp_lib
  implicit none
  integer :: total
  total = 0
  !$omp parallel num_threads(2)
  !$omp single
  !$omp task shared(total)
  call work(total)
  total = total + 5
  !$omp end task
  !$omp taskwait
  !$omp end single
  !$omp end parallel
  print *, 'total', total
contains
  subroutine work(t)
    integer, intent(inout) :: t
    integer :: a
    a = 1
    !$omp task shared(a)
    a = a + 10
    !$omp end task
    a = a + 0
    !$omp taskwait
    t = a
  end subroutine
end program
