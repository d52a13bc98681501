#!/bin/sh
# The first program of the built-in test image: it has its NICs ask for addresses, answers on an echo port,
# and has a shell on another.
/bin/busybox mkdir -p /bin /sbin /usr/bin /usr/sbin /proc /sys /dev /etc/acpi/PWRF /var/run
/bin/busybox --install -s
export PATH=/bin:/sbin:/usr/bin:/usr/sbin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
exec </dev/console >/dev/console 2>&1
for module in $(cat /modules/order); do insmod /modules/$module || echo "roost: no module $module"; done
printf '#!/bin/sh\npoweroff -f\n' >/etc/acpi/PWRF/00000080
chmod 755 /etc/acpi/PWRF/00000080
acpid -f -l /dev/null &
ip link set lo up
echo "roost: started"
nc -ll -p 7 -e /bin/cat &
nc -ll -p 23 -e /bin/sh &
while :; do # NICs come and go
    for nic in /sys/class/net/eth*; do
        known=/var/run/nic-$(cat $nic/ifindex 2>/dev/null)
        [ -e $nic ] && [ ! -e $known ] || continue
        : >$known
        ip link set ${nic##*/} up
        udhcpc -i ${nic##*/} -s /dhcp -t 100 -T 1 -A 1 -O staticroutes -O mtu >/dev/null 2>&1 &
    done
    sleep 1
done
