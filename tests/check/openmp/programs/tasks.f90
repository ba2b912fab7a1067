! Tasks.

! case merged_twice merged-task
subroutine merged_twice
  integer :: k, total
  k = 3
!$omp task mergeable if(.false.) ! wrong ! found
!$omp task mergeable if(.false.) shared(k) ! right
  k = k * 2
!$omp end task
  total = k + 1 ! found
  print *, total
end subroutine

! case merged_listed merged-task
subroutine merged_listed
  integer :: m, total, whole
  m = 3
  whole = 0
!$omp parallel
!$omp single
!$omp task mergeable if(.false.) firstprivate(m) ! wrong ! found
!$omp task mergeable if(.false.) ! right
  m = m + 1
  whole = m
!$omp end task
  total = m ! found
  print *, total, whole
!$omp end single
!$omp end parallel
end subroutine

! case sum_of_a_taskloop data-race
subroutine sum_of_a_taskloop
  integer :: i, total
  total = 0
!$omp parallel
!$omp single
!$omp taskloop grainsize(1) ! wrong
!$omp taskloop grainsize(1) reduction(+:total) ! right
  do i = 1, 64
    total = total + i ! found
  end do
!$omp end taskloop
!$omp end single
!$omp end parallel
  print *, total
end subroutine

! case taskloop_is_not_waited_for data-race
subroutine taskloop_is_not_waited_for
  integer :: i, last, a(64)
!$omp parallel
!$omp single
!$omp taskloop nogroup ! wrong
!$omp taskloop ! right
  do i = 1, 64
    a(i) = i ! found
  end do
!$omp end taskloop
  last = a(3) ! found
  print *, last
!$omp end single
!$omp end parallel
end subroutine
