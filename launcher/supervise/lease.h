// One supervisor at a time looks after an output folder.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

namespace trireme {

/// Holds `folder`/.supervisor while it lives: locked (flock), with the mark of this process, renewed by
/// renew(). The system lets go of the lock when the process ends, however it ends. A file system between
/// hosts may know no locks: there a mark of another host counts until its lease is over.
class Lease {
 public:
  static constexpr std::chrono::seconds kLease{30};
  static constexpr const char* kFile = ".supervisor";  // in the folder

  /// Throws Error(kInvalidInput) naming process and host of the supervisor that holds the folder.
  explicit Lease(const std::filesystem::path& folder);
  /// Clears the mark.
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  /// To be called several times within kLease.
  void renew() noexcept;

 private:
  int fd_ = -1;
};

/// "process 4711 on host-a", of a mark (runtime/checkpoint/writer_mark.h).
std::string describe_mark(const std::string& mark);

}  // namespace trireme
