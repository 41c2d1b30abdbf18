// Folders that no other user can read, change or replace.
//
// [Note: private folders] A path is safe to use by name if no other user can exchange one of its components
// between two calls. Each ancestor, links included, must belong to root or to this user. Each ancestor that
// other users can write must have the sticky bit, as /tmp and /dev/shm have: entries there are renamed and
// removed by their owner only. The folder itself belongs to this user, has mode 0700 and is no link.
// In a user namespace that does not know root, owners that it does not know count as root, but for those in a
// folder that others can write. openat() is not needed below such a folder, as nothing in the chain can
// change.
#pragma once

#include <filesystem>

namespace trireme {

/// Makes `path`, and its missing parents, with mode 0700 and checks [Note: private folders]. `path` is
/// absolute. An existing folder of this user at `path` itself gets mode 0700; existing parents stay as they
/// are. Throws Error(kInvalidInput) naming the component and what is wrong with it.
void make_private_folder(const std::filesystem::path& path);

/// The check alone. Throws as make_private_folder() does, also if there is no such folder.
void check_private_folder(const std::filesystem::path& path);

/// Removes a private folder and its content. Does nothing if the folder is not private.
void remove_private_folder(const std::filesystem::path& path) noexcept;

/// Refuses an output folder that another user may have prepared to redirect writes to other files of this
/// user. Checks the folder, its parents and its entries:
/// - links must belong to this user or root;
/// - a folder or entry that is in a world-writable folder must belong to this user or root, too.
/// Missing folders pass. File systems that map owners, such as NFS for root, are not checked.
/// Throws Error(kInvalidInput) naming the path and its owner.
void check_folder_to_write(const std::filesystem::path& path);

/// True if every user can replace `path` or create links in it: it is writable by all, or its parent is and
/// has no sticky bit.
bool all_can_exchange(const std::filesystem::path& path);

}  // namespace trireme
