C     A master and three workers in Fortran: what is printed depends on the order in which answers come.
      program fortran
      include 'fpvm3.h'
      integer parent, tids(3), n, info, i, job, from, bytes, tag, buf
      integer next, sum, place
      character*512 own
      call pvmfparent(parent)
      if (parent .ge. 0) then
         do
            call pvmfrecv(parent, -1, buf)
            call pvmfbufinfo(buf, bytes, tag, from, info)
            if (tag .eq. 4) exit
            call pvmfunpack(INTEGER4, job, 1, 1, info)
            call pvmfinitsend(PVMDEFAULT, info)
            call pvmfpack(INTEGER4, job, 1, 1, info)
            call pvmfsend(parent, 3, info)
         end do
      else
         call get_command_argument(0, own)
         call pvmfspawn('fortran', PVMDEFAULT, '*', 3, tids, n)
         if (n .lt. 3) stop 1
         next = 0
         sum = 0
         do i = 1, 3
            call give(tids(i), 2, next)
         end do
         do i = 1, 30
            call pvmfrecv(-1, 3, buf)
            call pvmfbufinfo(buf, bytes, tag, from, info)
            call pvmfunpack(INTEGER4, job, 1, 1, info)
            do place = 1, 3
               if (tids(place) .eq. from) sum = mod(sum*7+place, 99991)
            end do
            if (next .lt. 30) then
               call give(from, 2, next)
            else
               call give(from, 4, next)
            end if
         end do
         print '(A,I8)', 'order ', sum
      end if
      call pvmfexit(info)
      end

      subroutine give(tid, tag, next)
      include 'fpvm3.h'
      integer tid, tag, next, info
      call pvmfinitsend(PVMDEFAULT, info)
      call pvmfpack(INTEGER4, next, 1, 1, info)
      call pvmfsend(tid, tag, info)
      next = next + 1
      end
