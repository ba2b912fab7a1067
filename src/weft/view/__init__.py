"""The view: a recorded run as a picture in the browser.

`index` knows what each row of calls spent in which class of calls, `scale` the axes (the clock, the clock with idle
time folded away, logical time), `window` draws on both, `links` adds messages and collectives, `details` tells of one
call.
`picture` is one run with all of these, `beside` another one below it, `valued` the values of both; `server` answers the
page in web/ from it, `export` writes it into one file.
"""
