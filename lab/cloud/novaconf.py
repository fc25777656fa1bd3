"""The configuration of Nova and of what it needs besides Keystone and Cinder."""

from __future__ import annotations

from pathlib import Path

from . import ports
from .libvirtd import SECRET
from .serviceconf import REGION, authtoken, privileged_helper, service_user, text

# The API's databases, the cells' and the others'.
DATABASES = ("nova_api", "nova_cell0", "nova", "placement", "glance")
HOST = "lab"


def database(name: str, socket: Path | None = None) -> str:
    if socket:
        return f"mysql+pymysql://root@localhost/{name}?charset=utf8mb3&unix_socket={socket}"
    return f"mysql+pymysql://root@127.0.0.1:{ports.MARIADB}/{name}?charset=utf8mb3"


def transport_url() -> str:
    return f"rabbit://guest:guest@127.0.0.1:{ports.RABBITMQ}/"


def create_databases() -> str:
    """For MariaDB's --init-file."""
    return "".join(f"CREATE DATABASE IF NOT EXISTS {name} CHARACTER SET utf8mb3;\n" for name in DATABASES)


def rabbitmq() -> str:
    return f"""\
listeners.tcp.1 = 127.0.0.1:{ports.RABBITMQ}
vm_memory_high_watermark.absolute = 512MB
disk_free_limit.absolute = 100MB
log.file.level = warning
"""


def placement(logs: Path) -> str:
    return text(
        {
            "DEFAULT": {"log_file": logs / "placement.log", "use_stderr": False},
            "api": {"auth_strategy": "keystone"},
            "placement_database": {"connection": database("placement")},
            "keystone_authtoken": authtoken("placement"),
        }
    )


def glance(home: Path, logs: Path, environment: Path) -> str:
    return text(
        {
            "DEFAULT": {
                "log_file": logs / "glance.log",
                "use_stderr": False,
                "workers": 0,
                "enabled_backends": "files:file",
            },
            "database": {"connection": database("glance")},
            "glance_store": {"default_backend": "files"},
            "files": {"filesystem_store_datadir": home / "images"},
            "os_glance_staging_store": {"filesystem_store_datadir": home / "staging"},
            "os_glance_tasks_store": {"filesystem_store_datadir": home / "tasks"},
            "oslo_concurrency": {"lock_path": home / "locks"},
            "paste_deploy": {
                "flavor": "keystone",
                "config_file": environment / "etc/glance/glance-api-paste.ini",
            },
            "keystone_authtoken": authtoken("glance"),
        }
    )


def node_home(nodes: Path, number: int) -> Path:
    """Where a compute node's directory is found by its address, as Nova puts that into libvirt's URI."""
    return nodes / f"127.0.0.{number}"


def nova(
    home: Path, logs: Path, environment: Path, ceph_conf: Path, libvirt_uri: str, nodes: Path, number: int = 1
) -> str:
    """``nodes`` is the directory of ``node_home``; ``number`` tells compute nodes apart; 1 is the usual one."""
    privileged = privileged_helper(environment, home / "nova.conf")
    first = number == 1
    return text(
        {
            "DEFAULT": {
                "host": HOST if first else f"{HOST}{number}",
                "my_ip": "127.0.0.1",
                **({} if first else {"log_file": f"nova-compute{number}.log"}),
                "state_path": home / "state",
                "instances_path": home / "state/instances",
                "use_stderr": False,
                "log_dir": logs,
                "transport_url": transport_url(),
                "compute_driver": "libvirt.LibvirtDriver",
                "cpu_allocation_ratio": 16,
                "ram_allocation_ratio": 4,
                "disk_allocation_ratio": 16,
                "reserved_host_memory_mb": 256,
                "vif_plugging_is_fatal": False,
                "vif_plugging_timeout": 0,
                "heal_instance_info_cache_interval": -1,
                "periodic_fuzzy_delay": 0,
                # No system inside that would heed a power button.
                "shutdown_timeout": 1,
                "shelved_offload_time": 0,
            },
            "api": {"auth_strategy": "keystone"},
            "api_database": {"connection": database("nova_api")},
            "database": {"connection": database("nova")},
            "conductor": {"workers": 1},
            "scheduler": {"workers": 1, "discover_hosts_in_cells_interval": 1},
            # It may come up after the services do; else each try is two seconds later than the one before.
            "oslo_messaging_rabbit": {"rabbit_interval_max": 1},
            "vnc": {"enabled": False},
            "oslo_concurrency": {"lock_path": home / "state/locks"},
            "libvirt": {
                "virt_type": "qemu",
                "cpu_mode": "none",
                "hw_machine_type": "x86_64=q35",
                "num_pcie_ports": 12,
                "connection_uri": libvirt_uri,
                "live_migration_inbound_addr": node_home(nodes, number).name,
                "live_migration_uri": f"qemu+unix:///system?socket={nodes}/%s/run/libvirt/libvirt-sock",
                "images_type": "rbd",
                "images_rbd_pool": "vms",
                "images_rbd_ceph_conf": ceph_conf,
                "rbd_user": "cinder",
                "rbd_secret_uuid": SECRET,
                "disk_cachemodes": "network=writeback",
                "hw_disk_discard": "unmap",
                "wait_soft_reboot_seconds": 1,
            },
            "nova_sys_admin": privileged,
            "privsep_osbrick": privileged,
            "placement": service_user("placement"),
            "service_user": {"send_service_user_token": True} | service_user("nova"),
            "cinder": {"catalog_info": "block-storage::publicURL", "os_region_name": REGION} | service_user("cinder"),
            "glance": service_user("glance"),
            "neutron": service_user("neutron"),
            "keystone_authtoken": authtoken("nova"),
        }
    )
