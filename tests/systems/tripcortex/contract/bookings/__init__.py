"""Contract tests of bookings, their audit and connections on every engine of tables and queues."""
