"""The operations of every store, as frozen values. Nothing here touches a store."""
