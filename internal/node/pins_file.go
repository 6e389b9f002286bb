package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/ringcache/ringcache/internal/topology"
)

// pinFile keeps the pins in the data directory. They need no proof as entries do:
// a record of before loses to any that was written since.
const pinFile = "pins.json"

// maxPinFile bounds what is read of it, in bytes: a record for each slot takes less.
const maxPinFile = 32 << 20

// loadPins reads the file; one that is not there gives none.
func loadPins(path string) ([]topology.PinRecord, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err == nil && info.Size() > maxPinFile:
		err = fmt.Errorf("%s has %d bytes, limit %d", path, info.Size(), maxPinFile)
	}
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var records []topology.PinRecord
	if err := json.Unmarshal(text, &records); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for i := range records {
		if err := records[i].Validate(); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return records, nil
}

func writePins(path string, records []topology.PinRecord) error {
	text, err := json.MarshalIndent(records, "", " ")
	if err != nil {
		return err
	}
	return writeAside(path, append(text, '\n'))
}
