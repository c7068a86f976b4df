"""URLs and codes that FHIR, Da Vinci PAS, X12 and the subscriptions backport define."""

from __future__ import annotations

from typing import Final

# The content type of every object in the request bucket and of every FHIR response.
CONTENT_TYPE: Final = "application/fhir+json"
FHIR_VERSION: Final = "4.0.1"
PAS_VERSION: Final = "2.2.1"

PAS: Final = "http://hl7.org/fhir/us/davinci-pas"
_PROFILE: Final = f"{PAS}/StructureDefinition/profile-"
REQUEST_BUNDLE: Final = f"{_PROFILE}pas-request-bundle"
RESPONSE_BUNDLE: Final = f"{_PROFILE}pas-response-bundle"
INQUIRY_BUNDLE: Final = f"{_PROFILE}pas-inquiry-request-bundle"
INQUIRY_RESPONSE_BUNDLE: Final = f"{_PROFILE}pas-inquiry-response-bundle"
CLAIM: Final = f"{_PROFILE}claim"
CLAIM_UPDATE: Final = f"{_PROFILE}claim-update"
CLAIM_INQUIRY: Final = f"{_PROFILE}claim-inquiry"
CLAIM_RESPONSE: Final = f"{_PROFILE}claimresponse"
CLAIM_INQUIRY_RESPONSE: Final = f"{_PROFILE}claiminquiryresponse"
SUBSCRIPTION: Final = f"{_PROFILE}subscription"
SUBMIT_OPERATION: Final = f"{PAS}/OperationDefinition/Claim-submit"
INQUIRE_OPERATION: Final = f"{PAS}/OperationDefinition/Claim-inquiry"
TOPIC: Final = f"{PAS}/SubscriptionTopic/PASSubscriptionTopic"

_EXTENSION: Final = f"{PAS}/StructureDefinition/extension-"
CARE_TEAM_SCOPE: Final = f"{_EXTENSION}careTeamClaimScope"
REQUEST_TYPE: Final = f"{_EXTENSION}serviceItemRequestType"
DOCUMENT_INFORMATION: Final = f"{_EXTENSION}documentInformation"
CERTIFICATION_TYPE: Final = f"{_EXTENSION}certificationType"
INFO_CHANGED: Final = f"{_EXTENSION}infoChanged"
INFO_CANCELLED: Final = f"{PAS}/StructureDefinition/modifierextension-infoCancelled"
LEVEL_OF_SERVICE: Final = f"{_EXTENSION}levelOfServiceCode"
AUTHORIZATION_NUMBER: Final = f"{_EXTENSION}authorizationNumber"
ADMINISTRATION_NUMBER: Final = f"{_EXTENSION}administrationReferenceNumber"
ITEM_TRACE_NUMBER: Final = f"{_EXTENSION}itemTraceNumber"
ITEM_ISSUE_DATE: Final = f"{_EXTENSION}itemPreAuthIssueDate"
ITEM_PERIOD: Final = f"{_EXTENSION}itemPreAuthPeriod"
REVIEW_ACTION: Final = f"{_EXTENSION}reviewAction"
REVIEW_ACTION_CODE: Final = f"{_EXTENSION}reviewActionCode"

BACKPORT: Final = "http://hl7.org/fhir/uv/subscriptions-backport/StructureDefinition"
STATUS_OPERATION: Final = (
    "http://hl7.org/fhir/uv/subscriptions-backport/OperationDefinition/backport-subscription-status"
)
EVENTS_OPERATION: Final = (
    "http://hl7.org/fhir/uv/subscriptions-backport/OperationDefinition/backport-subscription-events"
)
BACKPORT_SUBSCRIPTION: Final = f"{BACKPORT}/backport-subscription"
BACKPORT_NOTIFICATION: Final = f"{BACKPORT}/backport-subscription-notification-r4"
BACKPORT_STATUS: Final = f"{BACKPORT}/backport-subscription-status-r4"
FILTER_CRITERIA: Final = f"{BACKPORT}/backport-filter-criteria"
PAYLOAD_CONTENT: Final = f"{BACKPORT}/backport-payload-content"
HEARTBEAT_PERIOD: Final = f"{BACKPORT}/backport-heartbeat-period"
TIMEOUT: Final = f"{BACKPORT}/backport-timeout"
TOPIC_CANONICAL: Final = f"{BACKPORT}/capabilitystatement-subscriptiontopic-canonical"

SMART_URIS: Final = "http://fhir-registry.smarthealthit.org/StructureDefinition/oauth-uris"
NPI: Final = "http://hl7.org/fhir/sid/us-npi"
PRIORITY: Final = "http://terminology.hl7.org/CodeSystem/processpriority"
CLAIM_TYPE: Final = "http://terminology.hl7.org/CodeSystem/claim-type"
RELATED_CLAIM: Final = "http://terminology.hl7.org/CodeSystem/ex-relatedclaimrelationship"
ADJUDICATION: Final = "http://terminology.hl7.org/CodeSystem/adjudication"
X12_ACTION: Final = "https://codesystem.x12.org/005010/306"
X12_REASON: Final = "https://codesystem.x12.org/external/886"
X12_ERROR: Final = "https://codesystem.x12.org/005010/901"
X12_CERTIFICATION: Final = "https://codesystem.x12.org/005010/1322"
X12_LEVEL_OF_SERVICE: Final = "https://codesystem.x12.org/005010/1338"

# X12 1322: the certification is to be cancelled.
CANCEL: Final = "3"
# The identifier system of the gateway's own request ids.
PAGW_ID: Final = "urn:pagw:request"
