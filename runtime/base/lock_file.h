// Files that only exist to be locked (flock).
#pragma once

#include <filesystem>

namespace trireme {

/// Opens `path` to lock and write, creating it if missing. Returns the descriptor, or -1 with errno. Refuses
/// links. A user who can open the file can lock it and so stop a job. So the file has mode 0600, or 0660 in
/// a folder that its group can write; an older file of this user gets this mode, too.
int open_lock_file(const std::filesystem::path& path);

}  // namespace trireme
