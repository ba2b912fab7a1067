! Loop variables that are private, named or not, with labels and inner loops.
program private_loops
  implicit none
  integer :: i, j, k
  real(8) :: a(20, 20), t
  a = 1
!$omp parallel do private(i, j, t)
  do i = 1, 20
    t = 0
    do 10 j = 1, 20
      t = t + a(j, i)
10  continue
    do j = 1, 20
      a(j, i) = t / j
    end do
  end do
!$omp parallel do collapse(2) private(k)
  do i = 1, 20
    do j = 1, 20
      k = i + j
      a(j, i) = a(j, i) + k
    end do
  end do
!$omp parallel private(k, i)
!$omp do private(j)
  outer: do k = 20, 1, -2
    j = k
    a(j, k) = 0
    do i = 1, 3
      if (i == 2) cycle outer
    end do
  end do outer
!$omp end parallel
!$omp parallel do lastprivate(k, i)
  do i = 1, 20
    k = i
  end do
  a(1, 1) = k + i
  print '(f0.6)', sum(a)
end program
