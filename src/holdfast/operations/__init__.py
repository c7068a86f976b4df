"""The vocabulary: what can be asked of a store, as frozen values. Nothing here touches a store."""
