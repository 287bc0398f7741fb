package readstate

import "time"

// Bounds: whoever can log in can invent devices and targets at will.
const (
	// MaxDevices bounds the devices.
	MaxDevices = 64
	// MaxConversations bounds the conversations of one device; those with the oldest
	// positions go first.
	MaxConversations = 512
	// MaxMarkers bounds the read markers.
	MaxMarkers = 1024
	// MaxAge is how long a device is remembered after its last use.
	MaxAge = 90 * 24 * time.Hour
	// maxName bounds the name of a device or conversation, in bytes.
	maxName = 128
)
