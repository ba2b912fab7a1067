"""The web view: a recorded run as a picture in the browser.

`timeline` sums up what each row of calls spent in which class of calls, `scale` holds the axes (the clock, the clock
with idle time folded away, logical time), `window` draws on both, `links` adds messages and collectives, `call_details`
describes one call. `run_view` combines these for one run, `side_by_side` compares it with another run, `value_view`
shows the values of both; `server` answers the page in web/ from them, `html_export` writes them into one file.
"""
