"""`RequestCounts`: requests by method, route and status, and their durations by method and route."""

from __future__ import annotations

from holdfast.core.http.request_counts import NO_STATUS, UNMATCHED, RequestCounts


def test_counts_by_bounded_labels() -> None:
    counts = RequestCounts()
    for method, status in (("GET", 200), ("GET", 200), ("GET", 503), ("BREW", 405), ("POST", NO_STATUS)):
        counts.finish(counts.start(), method, UNMATCHED, status)

    assert counts.count_requests() == {
        ("GET", "unmatched", "200"): 2,
        ("GET", "unmatched", "503"): 1,
        ("other", "unmatched", "405"): 1,
        ("POST", "unmatched", "none"): 1,
    }


def test_durations_of_all_statuses_are_one_series() -> None:
    counts = RequestCounts()
    for status in (200, 200, 404):
        counts.finish(counts.start(), "GET", "/seats", status)

    (series,) = counts.list_durations()
    assert series.labels == {"method": "GET", "route": "/seats"}
    assert series.buckets[-1] == ("+Inf", 3.0)
    assert [count for _, count in series.buckets] == sorted(count for _, count in series.buckets)
    assert series.total_s > 0


def test_a_request_is_in_progress_until_it_is_finished() -> None:
    counts = RequestCounts()
    started = counts.start()
    assert counts.in_progress == 1
    counts.finish(started, "GET", "/seats", 200)
    assert counts.in_progress == 0
