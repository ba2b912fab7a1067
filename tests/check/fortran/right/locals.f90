program p
  implicit none
  integer, parameter :: n = 16
  real a(n), x, y, s, last
  integer i, k, have
  integer pick
  character(20) text
!DVM$ distribute a(block)
  text = '12'
  read (text, *) k
  call set(x, 4)
!DVM$ parallel (i) on a(i)
  do i = 1, n
    a(i) = i + x
  end do
  have = 0
  do i = 0, k - 1
    if (have == 1) then
      s = s + last
    else
      s = 100 - 2
    end if
    last = i
    have = 1
  end do
  call set(y, 5)
  if (k > 3) s = s + 0
  x = y + 1
  print *, s, x - 1
  print *, pick(15)
end program

subroutine set(x, n)
  real x
  integer n
  if (n > 3) x = n
end subroutine

integer function pick(n)
  implicit none
  integer n, i, found, other
  real c(4)
!DVM$ distribute c(block)
  found = 0 ! none
  do i = 0, n - 1
    if (i * i > 50) found = i
  end do
  if (n > 20) other = 3
  c(1) = 2
  pick = found
  if (n > 20) pick = other
end function
