// Serves a text for Prometheus over HTTP, under /metrics.
#pragma once

#include <functional>
#include <string>

#include "launcher/observe/http_server.h"

namespace trireme {

class MetricsServer {
 public:
  /// Starts to listen on `address` (listen_address.h). `text` is called for each answer, on the server's
  /// thread. Throws Error(kInvalidInput) naming log.listen if that fails, for example if the port is in use.
  MetricsServer(const std::string& address, std::function<std::string()> text);

  /// "http://127.0.0.1:9464/metrics", with the actual port.
  std::string url() const { return server_.url() + "metrics"; }
  /// False if other machines can reach it.
  bool is_loopback() const { return server_.is_loopback(); }

 private:
  HttpServer server_;
};

}  // namespace trireme
