// Serves a text over HTTP, under /metrics: what Prometheus scrapes.
#pragma once

#include <functional>
#include <string>

#include "launcher/observe/http_server.h"

namespace trireme {

class MetricsServer {
 public:
  /// Listens at `address` (listen_address.h) from now on; `text` is called for each answer, by the server's
  /// thread. Throws Error(kInvalidInput) naming log.listen where it cannot: a port that is taken.
  MetricsServer(const std::string& address, std::function<std::string()> text);

  /// "http://127.0.0.1:9464/metrics", with the port that was taken.
  std::string url() const { return server_.url() + "metrics"; }
  /// False: other machines may reach it.
  bool is_loopback() const { return server_.is_loopback(); }

 private:
  HttpServer server_;
};

}  // namespace trireme
