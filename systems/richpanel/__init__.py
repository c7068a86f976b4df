"""The Richpanel middleware: customer-support automation that never replies or routes twice and stores no"""
