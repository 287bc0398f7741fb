package kv

// WithFault calls fault at the named points of the store; an error fails what
// would follow.
func (o Options) WithFault(fault func(point string) error) Options {
	o.hooks.fault = fault
	return o
}

// WithFree replaces the file system's count of free bytes.
func (o Options) WithFree(free func() int64) Options {
	o.hooks.free = func(string) (int64, bool) { return free(), true }
	return o
}

// Need returns the free space below which class c is refused.
func (db *DB) Need(c Class) int64 { return db.need(c) }

// Maintain does what Run does every minute.
func (db *DB) Maintain() {
	db.engineMu.Lock()
	defer db.engineMu.Unlock()
	db.maintain()
}

// Commits returns the number of the last commit.
func (db *DB) Commits() uint64 { return db.e.seq }

// Queued returns how many calls wait for a leader.
func (db *DB) Queued() int {
	db.queueMu.Lock()
	defer db.queueMu.Unlock()
	return len(db.queue)
}

// Tables returns the number of tables on disk.
func (db *DB) Tables() int { return len(db.e.b.Tables()) }

var (
	DecodeFormat  = decodeFormat
	DecodeWitness = decodeWitness
	EncodeWitness = encodeWitness
	ScanWAL       = scanWAL
	CheckTable    = checkTable
)

// EncodeFormat encodes what decodeFormat returned.
func EncodeFormat(f format) []byte { return f.encode() }

// FormatOf returns a record's encoding.
func FormatOf(kind string, schema, generation uint32, memtable, table, threshold int64) []byte {
	return format{kind, schema, generation, memtable, table, threshold}.encode()
}
