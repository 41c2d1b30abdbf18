// The address that a server listens at: log.listen, --listen.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

struct ListenAddress {
  std::string host;  // a name or a number, without brackets
  std::string port;  // "0": any free one
};

/// Reads "127.0.0.1:9464", "localhost:9464" or "[::1]:9464". Throws Error(kInvalidInput), which begins with
/// `setting`: what the user has written, as `--listen 127.0.0.1:8080`.
ListenAddress parse_listen_address(std::string_view text, std::string_view setting);

}  // namespace trireme
