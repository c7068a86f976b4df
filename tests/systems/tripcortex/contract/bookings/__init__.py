"""Bookings, their audit and connections on every engine of tables and queues."""
