"""Files on this node: state and memory, the record of changes, the clock, and the state of the catalogue's refresh.

Why they are as they are:

- State is small files of JSON, each replaced as a whole: a killed process leaves the old one or the new one. The
  record is SQLite: it is long, it is asked questions, and an intent must be on the disk before the limit is written.
- Passes and commands run side by side, each from a copy of the memory. So it is not overwritten but merged
  (``merge``), by what each has changed, under one short lock; for longer a pass holds the locks of guests alone.
- Memory and record stand in for each other: a lost memory is rebuilt from the record, and what the record has
  left open is settled by the limits that the disk has now.
- A damaged file is set aside and told, never removed; an older format is read, a newer one refused.

Imports ``policy`` and below, whose values it stores.
"""
