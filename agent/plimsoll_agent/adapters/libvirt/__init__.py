"""libvirt and QEMU: the client, the domain XML, QEMU's own answers.

Imports ``model`` and ``adapters.deadline``; only ``client`` imports the bindings.
"""
