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
