# SPDX-License-Identifier: Apache-2.0
#
#   docker build -t tenax .
#   docker run -d --name tenax -v tenax:/var/lib/tenax -p 127.0.0.1:7890:7890 \
#       -e TENAX_HOST=0.0.0.0 -e TENAX_INSECURE=1 -e TENAX_ALLOWED_HOSTS=tenax tenax
#
# In a container the loopback is the container's own, so the server must listen on all
# addresses to be reached. TENAX_INSECURE says that the network decides who may ask; with
# certificates it is not needed, see docs/security.md. TENAX_ALLOWED_HOSTS is the name by which
# other containers ask for it.
FROM debian:12-slim AS build
WORKDIR /src
# The packages first: they change less often than the sources.
COPY tools/setup tools/setup
RUN tools/setup deb
COPY . .
RUN tools/deb build

FROM debian:12-slim AS tenax
# Known by number, for a cluster that checks that nobody is root: see deploy/kubernetes.
RUN groupadd --gid 789 --system tenax \
    && useradd --uid 789 --gid 789 --system --no-create-home --home-dir /var/lib/tenax \
        --shell /usr/sbin/nologin tenax
COPY --from=build /src/build/deb/tenax_*.deb /tmp/
RUN apt-get update \
    && apt-get install -y --no-install-recommends /tmp/tenax_*.deb \
    && rm -rf /var/lib/apt/lists/* /tmp/tenax_*.deb
ENV TENAX_ROOT_DIR=/var/lib/tenax/root
USER 789:789
VOLUME /var/lib/tenax
EXPOSE 7890
STOPSIGNAL SIGTERM
COPY packaging/docker-health /usr/local/bin/docker-health
HEALTHCHECK --start-period=60s CMD ["docker-health"]
ENTRYPOINT ["tenax"]
CMD ["serve"]

# docker build --target build-worker: in the place of Screwdriver's queue worker, which is configured by
# the same variables and the same file.
FROM tenax AS build-worker
HEALTHCHECK NONE
ENTRYPOINT ["tenax", "build-worker"]
CMD []

# What is built unless another stage is named: the server.
FROM tenax AS server
