"""Reads user data with cloudbase-init as a Windows machine does, and prints what it would write and run (see cloudbase-init.sh).

Only the edges are replaced: the metadata service, the disk, the paths and line ends of Windows, and the process that runs a script.
"""

import base64
import json
import ntpath
import sys
import types

from cloudbaseinit.metadata.services import base as metadata
from cloudbaseinit.osutils import factory as osutils
from cloudbaseinit.plugins.common import userdata, userdatautils
from cloudbaseinit.plugins.common.userdataplugins.cloudconfigplugins import runcmd, write_files

HOST_NAME = "web-1"


class Service(metadata.BaseMetadataService):
    """A metadata service with this user data."""

    def __init__(self, content):
        super().__init__()
        self.content = content

    def _get_data(self, path):
        raise metadata.NotExistingMetadataException()

    def get_user_data(self):
        return self.content

    def get_instance_id(self):
        return "i-1"

    def get_host_name(self):
        return HOST_NAME


def read(content):
    """What is written, in order, and the scripts that run."""
    done = {"files": [], "scripts": []}

    def write(path, data, permissions=write_files.DEFAULT_PERMISSIONS, open_mode="wb"):
        text = base64.b64encode(data).decode()
        done["files"].append({"path": path, "content": text, "permissions": permissions, "append": open_mode == "ab"})
        return True

    def run(script):
        done["scripts"].append(script.decode())
        return 0

    windows = types.SimpleNamespace(get_default_script_exec_header=lambda: "rem cmd")
    write_files.os = types.SimpleNamespace(path=ntpath)
    write_files._write_file = write
    runcmd.os = types.SimpleNamespace(linesep="\r\n")
    osutils.get_os_utils = lambda: windows
    userdatautils.execute_user_data_script = run
    userdata.UserDataPlugin().execute(Service(content), {})
    return done


with open(sys.argv[1], "rb") as file:
    json.dump(read(file.read()), sys.stdout)
