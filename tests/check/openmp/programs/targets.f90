module fields
  real :: shared_field(64)
!$omp declare target(shared_field)
end module

! case no_from stale-copy
subroutine no_from
  real :: a(64), b(64), s
  integer :: i
  a = 1
  b = 0
!$omp target map(to: a, b) ! wrong
!$omp target map(to: a) map(tofrom: b) ! right
  do i = 1, 64
    b(i) = 2 * a(i) ! found
  end do
!$omp end target
  s = b(5) ! found
  if (s > 100) stop 1
end subroutine

! case no_to stale-copy
subroutine no_to
  real, allocatable :: a(:), b(:)
  integer :: i
  allocate(a(64), b(64))
  a = 1
!$omp target teams distribute parallel do map(alloc: a) map(from: b) ! wrong ! found
!$omp target teams distribute parallel do map(to: a) map(from: b) ! right
  do i = 1, 64
    b(i) = a(i) ! found
  end do
  if (b(3) > 100) stop 1
  deallocate(a, b)
end subroutine

! case no_update_to stale-copy
subroutine no_update_to
  real, allocatable :: a(:), b(:)
  integer :: i, step
  allocate(a(64), b(64))
  a = 1
  b = 0
!$omp target data map(to: a) map(tofrom: b)
  do step = 1, 2
!$omp target parallel do
    do i = 1, 64
      b(i) = b(i) + a(i) ! found
    end do
!$omp end target parallel do
    do i = 1, 64
      a(i) = step ! found
    end do
!$omp target update to(a) ! right
  end do
!$omp end target data
  if (b(3) > 100) stop 1
end subroutine

! case no_update_from stale-copy
subroutine no_update_from
  real :: a(8, 8), s
  integer :: i, j
  a = 0
!$omp target enter data map(to: a)
!$omp target teams distribute parallel do collapse(2)
  do j = 1, 8
    do i = 1, 8
      a(i, j) = i + j ! found
    end do
  end do
!$omp end target teams distribute parallel do
!$omp target update from(a) ! right
  s = a(2, 3) ! found
!$omp target exit data map(delete: a)
  if (s > 100) stop 1
end subroutine

! case released stale-copy
subroutine released
  real, allocatable :: a(:)
  real :: s
  integer :: i
  allocate(a(64))
!$omp target enter data map(alloc: a)
!$omp target
  do i = 1, 64
    a(i) = i ! found
  end do
!$omp end target
!$omp target exit data map(release: a) ! wrong
!$omp target exit data map(from: a) ! right
  s = a(7) ! found
  if (s > 100) stop 1
end subroutine

! case declared stale-copy
subroutine declared
  use fields
  real :: s
  integer :: i
  do i = 1, 64
    shared_field(i) = i ! found
  end do
!$omp target update to(shared_field) ! right
!$omp target map(from: s)
  s = shared_field(9) ! found
!$omp end target
  if (s > 100) stop 1
end subroutine

! case too_short remote-access
subroutine too_short
  real, allocatable :: a(:)
  real :: s
  integer :: i
  allocate(a(64))
  a = 1
  s = 0
!$omp target map(to: a(1:32)) map(tofrom: s) ! wrong
!$omp target map(to: a) map(tofrom: s) ! right
  do i = 1, 64
    s = s + a(i) ! found
  end do
!$omp end target
  if (s > 100) stop 1
end subroutine

! case in_a_type stale-copy
subroutine in_a_type
  type :: grid
    integer :: n
    real :: values(64)
  end type
  type(grid) :: g
  real :: s
  integer :: i
  g%n = 64
  g%values = 1
!$omp target map(to: g) ! wrong
!$omp target map(tofrom: g) ! right
  do i = 1, 64
    g%values(i) = i ! found
  end do
!$omp end target
  s = g%values(3) ! found
  if (s > 100) stop 1
end subroutine


! case ends_beside data-race
subroutine ends_beside
  real, allocatable :: a(:)
  real :: s
  integer :: i
  allocate(a(64))
  a = 1
!$omp target map(tofrom: a) nowait
  do i = 1, 64
    a(i) = a(i) + i ! found
  end do
!$omp end target
!$omp taskwait ! right
  s = a(3) ! found
!$omp taskwait
  if (s > 100) stop 1
end subroutine

! case tasks_of_the_device data-race
subroutine tasks_of_the_device
  real :: a(64), s
  integer :: i
  a = 1
!$omp target teams distribute parallel do map(tofrom: a) nowait ! wrong
!$omp target teams distribute parallel do map(tofrom: a) nowait depend(out: a) ! right
  do i = 1, 64
    a(i) = a(i) + i ! found
  end do
!$omp target map(to: a) map(from: s) nowait depend(in: a)
  s = a(7) ! found
!$omp end target
!$omp taskwait
  if (s > 100) stop 1
end subroutine

! case critical_in_teams data-race
subroutine critical_in_teams
   implicit none
   integer :: i, total
   total = 0
   !$omp target teams num_teams(2) map(tofrom: total) ! wrong
   !$omp target teams num_teams(1) map(tofrom: total) ! right
   !$omp distribute parallel do
   do i = 1, 60
      !$omp critical
      total = total + 1 ! found
      !$omp end critical
   end do
   !$omp end distribute parallel do
   !$omp end target teams
   print *, total > 0
end subroutine
