# The image of the server: one static program and nothing else, run by a user who may do nothing.
#
#   docker build -t liststore .
#   docker run -d --name liststore -p 8080:8080 -v data:/data liststore
#   docker exec liststore liststore key create admin --role admin --local
#
# The last line creates the first key. Until then the server refuses all callers (docs/howto/operate/kubernetes.md).
# `scripts/test-image` builds it with an existing program, in place of the stage `compile`.
#
# `scripts/release` adds the licences of what the programs contain. Add them to an image that you publish.
#
# HEALTHCHECK uses the program itself, because the image has no other. For a server with TLS or another port, set
# LISTSTORE_URL. Kubernetes ignores it and has separate probes, GET /livez and GET /readyz.

FROM rust:1.95-bookworm AS compile
WORKDIR /source
COPY . .
# +crt-static for the program alone: names are resolved by the same C library, with its own nss_files and
# nss_dns inside (glibc 2.34 and newer).
ARG REVISION=unknown
RUN SQLX_OFFLINE=true LISTSTORE_COMMIT=$REVISION \
      cargo rustc --config packaging/dist.toml --profile dist --locked --bin liststore \
      -- -C target-feature=+crt-static
RUN mkdir -p /image/data /image/usr/local/bin /image/usr/share/doc/liststore /image/etc/ssl/certs \
 && cp target/dist/liststore /image/usr/local/bin/ \
 && cp LICENSE /image/usr/share/doc/liststore/ \
 && cp /etc/ssl/certs/ca-certificates.crt /image/etc/ssl/certs/ \
 && echo 'hosts: files dns' >/image/etc/nsswitch.conf

# `docker build --target operator -t liststore-operator .`
FROM compile AS compile-operator
RUN SQLX_OFFLINE=true cargo rustc --config packaging/dist.toml --profile dist --locked \
      --package liststore-operator --bin liststore-operator -- -C target-feature=+crt-static \
 && cp target/dist/liststore-operator /image/usr/local/bin/

FROM scratch AS operator
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="liststore-operator" \
      org.opencontainers.image.description="Looks after Deployments of Liststore on Kubernetes" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"
COPY --from=compile-operator /image/etc /etc
COPY --from=compile-operator /image/usr/share /usr/share
COPY --from=compile-operator /image/usr/local/bin/liststore-operator /usr/local/bin/liststore-operator
ENV PATH=/usr/local/bin
USER 65532:65532
STOPSIGNAL SIGTERM
ENTRYPOINT ["liststore-operator"]
CMD ["run"]

FROM scratch
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="liststore" \
      org.opencontainers.image.description="A server for list features: time-ordered lists of expiring items" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"
COPY --from=compile /image/etc /etc
COPY --from=compile /image/usr /usr
# A volume that is new takes its owner from here.
COPY --from=compile --chown=65532:65532 /image/data /data
ENV PATH=/usr/local/bin \
    LISTSTORE__HTTP__LISTEN=0.0.0.0:8080 \
    LISTSTORE__ACCESS__MODE=required \
    LISTSTORE__ITEMS__EMBEDDED__DIR=/data
USER 65532:65532
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["liststore", "ready"]
ENTRYPOINT ["liststore"]
CMD ["serve"]
