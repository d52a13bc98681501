#!/bin/sh
# What the built-in test image does with an answer of DHCP: it takes it, and says so on its console.
[ "$1" = bound ] || [ "$1" = renew ] || exit 0
ip address flush dev $interface scope global
ip address add $ip/$mask dev $interface
[ -n "$mtu" ] && ip link set $interface mtu $mtu
[ -n "$hostname" ] && hostname $hostname
for gateway in $router; do ip route replace default via $gateway dev $interface onlink; done
set -- $staticroutes
while [ -n "$2" ]; do ip route replace $1 via $2 dev $interface onlink; shift 2; done
for server in $dns; do echo "nameserver $server"; done >/etc/resolv.conf
echo "roost: $interface $(cat /sys/class/net/$interface/address) $ip/$mask $(hostname)" >/dev/console
