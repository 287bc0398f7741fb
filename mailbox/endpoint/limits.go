package endpoint

import "time"

// Bounds of a node's use of mailboxes (spec/mailbox.md; MB-25 to MB-27, MB-53).
const (
	// MaxMailboxes is the own relays that are collected from.
	MaxMailboxes = 8
	// MaxDeposits and MaxDepositBytes bound what is kept for relays until the
	// end-to-end receipt. When they are reached, messages still go to the graph.
	MaxDeposits     = 4096
	MaxDepositBytes = 32 << 20
	// MaxInbox bounds staged messages that the application has not taken (MB-26).
	MaxInbox = 4096
	// maxOwed bounds the receipts that are owed to a contact at a relay while one envelope of
	// them has not been accepted there: a contact who writes and never collects receipts
	// costs one envelope and this many ids a relay. What is forgotten is owed again when its
	// message comes again.
	maxOwed = 4 * MaxReceiptIDs
	// MaxSeen bounds the remembered message ids, oldest forgotten first.
	MaxSeen = 1 << 17

	// PassBudget bounds one pass over one relay in time: one page, then the next
	// interval, whatever the relay says (MB-27).
	PassBudget = 10 * time.Second
	// Redeposit is how long after its acceptance an unreceipted envelope is deposited
	// again, Readdress after how long it gets a new token and the sender is told.
	Redeposit = 24 * time.Hour
	Readdress = 30 * 24 * time.Hour
	// UnknownAfter is how long a relay must have refused before the sender is told that
	// it does not know the recipient yet.
	UnknownAfter = 24 * time.Hour
	// retryInitial and retryCap bound the backoff of a deposit that was not accepted.
	retryInitial = 10 * time.Second
	retryCap     = time.Hour
)
