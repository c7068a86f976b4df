"""FHIR resources that the gateway builds: response Bundles, notifications and the CapabilityStatement."""
