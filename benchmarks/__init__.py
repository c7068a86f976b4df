"""Benchmarks: each figure beside its floor, measured in the same run on the same machine.

A time says little on a noisy machine; a ratio to the floor (raw SQLite or psycopg, a bare app on the same server) says
what Holdfast adds. `holdfast bench` runs them; docs/benchmarks.md has the figures of a run.

    sample.py           the items
    floor.py            raw SQLite, as one would write it by hand
    measure.py          alternating rounds, the median of their ratios
    keyed_read.py  query_page.py  conditional_put.py  batch_import.py  wire_get.py   one file per figure
    scale.py            10,000 against 1,000,000 items: cost of each, and the memory of the process
    queues.py           a FIFO queue: send, receive, delete
    webhooks.py         Richpanel's ingress over HTTP; bare_queue.py has its floors
    events.py           Richpanel's four workers; events_floor.py has their floor
    stored_events.py    Richpanel: 1,000 stored events against 1,000,000
    keep_alive.py  processes.py    the client and the processes of these
    disruption.py       SkyMarshal: an index beside a scan, one disruption at a hundred times the data
    sql_statements.py   SQL patterns beside raw psycopg
    pagw_accepted.py    PAGW's intake over HTTP; pagw_bare.py has its floors
    pagw_pipeline.py    PAGW's pipeline; pagw_pipeline_floor.py has its floor
    pagw_scale.py       PAGW: 1,000 tracked requests against 200,000
    pagw_gateway.py     the gateway of these
    report.py           the table a person reads, the JSON a program reads
"""
