// Package readstate keeps, for the person whose node this is, what was read: how far
// each of their devices has got in each conversation, in the order of arrival, and the
// read markers that their clients set (IRCv3 draft/read-marker).
//
// It lives in the custody store, under 'r' (spec/storage-custody.md). It knows names of
// devices and conversations and positions, no messages and no clients. All of it is in
// memory too; only writes touch the disk.
//
// Invariants:
//
//   - a cursor and a marker only grow;
//   - what a call has returned is on the disk;
//   - numbers are bounded: a device or marker that was not used for longest makes room.
//
// The Store starts no goroutine and may be used from any.
package readstate
