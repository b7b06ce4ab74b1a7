# The hub in a container: docker build -t aye .
FROM node:22-bookworm-slim AS node

FROM rust:1.95-bookworm AS build
# The page is built with the program.
COPY --from=node /usr/local/bin/node /usr/local/bin/node
COPY --from=node /usr/local/lib/node_modules /usr/local/lib/node_modules
RUN ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm
WORKDIR /src
COPY . .
RUN cargo build --profile archive --locked -p aye

FROM debian:bookworm-slim
# The authorities that the database's certificate is checked with.
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --create-home --home-dir /var/lib/aye aye \
    && install -d -o aye -g aye -m 700 /var/lib/aye /keys
COPY --from=build /src/target/archive/aye /usr/local/bin/aye
USER aye
ENV AYE_HOME=/var/lib/aye
VOLUME ["/var/lib/aye"]
EXPOSE 7177
ENTRYPOINT ["aye"]
# Other machines are not served in the clear: a proxy in front speaks TLS, and config.toml names its address as public_url.
CMD ["up", "--no-open", "--listen", "0.0.0.0:7177", "--behind-proxy"]
# Succeeds only if the hub answers and reaches its database.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["aye", "list", "--json"]
