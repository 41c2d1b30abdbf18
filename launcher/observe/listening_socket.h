// A listening socket.
#pragma once

#include <string>

namespace trireme {

class ListeningSocket {
 public:
  /// Listens on `address` (listen_address.h). `setting` names it in messages: `--listen 127.0.0.1:8080`.
  /// Throws Error(kInvalidInput) if that fails, for example if the port is in use.
  ListeningSocket(const std::string& address, const std::string& setting);
  ~ListeningSocket();
  ListeningSocket(const ListeningSocket&) = delete;
  ListeningSocket& operator=(const ListeningSocket&) = delete;

  int fd() const { return fd_; }
  /// Another owner closes the socket.
  void release() { fd_ = -1; }
  /// "http://127.0.0.1:8080/", with the actual port.
  const std::string& url() const { return url_; }
  /// The host part of the given address.
  const std::string& host() const { return host_; }
  /// False if other machines can reach it.
  bool is_loopback() const { return loopback_; }

 private:
  int fd_ = -1;
  std::string url_, host_;
  bool loopback_ = false;
};

}  // namespace trireme
