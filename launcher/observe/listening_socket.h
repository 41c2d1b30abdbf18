// A socket that waits for connections at an address.
#pragma once

#include <string>

namespace trireme {

class ListeningSocket {
 public:
  /// Listens at `address` (listen_address.h) from now on. `setting` is what messages call it:
  /// `--listen 127.0.0.1:8080`. Throws Error(kInvalidInput) where it cannot: a port that is taken.
  ListeningSocket(const std::string& address, const std::string& setting);
  ~ListeningSocket();
  ListeningSocket(const ListeningSocket&) = delete;
  ListeningSocket& operator=(const ListeningSocket&) = delete;

  int fd() const { return fd_; }
  /// Somebody else closes it.
  void release() { fd_ = -1; }
  /// "http://127.0.0.1:8080/", with the port that was taken.
  const std::string& url() const { return url_; }
  /// The host of the address that it was given.
  const std::string& host() const { return host_; }
  /// False: other machines may reach it.
  bool is_loopback() const { return loopback_; }

 private:
  int fd_ = -1;
  std::string url_, host_;
  bool loopback_ = false;
};

}  // namespace trireme
