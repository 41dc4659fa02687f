//! docs/formats/filemeta.md says what the code does, and old bytes stay readable.

use env::handle::Handle;
use env::sim::World;
use env::{Dir, Files};
use holdfast_filemeta::superblock::Superblock;
use holdfast_filemeta::{
    Composite, Entry, Header, Number, ObjectKey, Options, Places, Store, StoreId, SystemName, Tag,
};

#[path = "../../../ground/codec/tests/support/table.rs"]
mod table;
use table::Table;

const STORE: StoreId = StoreId(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff);

fn tag(number: u8) -> Tag {
    Tag::new(number).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_composite_attribute_is_laid_out_as_documented() {
    let owner = Handle::from_bytes(b"\x01\x0c\0\0\0\x2a\0\0\0").unwrap();
    let number = Number::new(0x0102_0304_0506).unwrap();
    let entries = [
        (tag(1), Entry::Linked(number)),
        (tag(2), Entry::Value(b"tiny".to_vec())),
        (tag(63), Entry::Shared { number, place: 5 }),
    ];
    let composite = Composite {
        entries: entries.into_iter().collect(),
    };
    let bytes = composite.encode(STORE, &owner, 0).unwrap();
    let table = Table::read("filemeta.md", "## Composite attribute, version 1");
    assert_eq!(table.value("version", &bytes), 1);
    assert_eq!(
        hex(&bytes[table.len()..]),
        "81060504030201420474696e79ff06050403020105000000"
    );
    let covered = [
        &STORE.0.to_le_bytes()[..],
        &[owner.as_bytes().len() as u8],
        owner.as_bytes(),
        &table.without("checksum", &bytes),
    ]
    .concat();
    let sum = u64::from(codec::crc32c(&covered));
    assert_eq!(table.value("checksum", &bytes), sum);
    assert_eq!(
        hex(&bytes),
        "0152306dbe81060504030201420474696e79ff06050403020105000000",
        "golden, version 1"
    );
}

#[test]
fn a_header_is_laid_out_as_documented() {
    let header = Header {
        generation: 7,
        tag: 3,
        free: 0,
        length: 0x1122_3344,
        references: 1,
        owner: b"\x01handle".to_vec(),
    };
    let key = ObjectKey::Linked(Number::new(7).unwrap());
    let bytes = header.encode(&key, STORE);
    let object = codec::open_object(&bytes, codec::kind::METADATA_OBJECT, None).unwrap();
    assert_eq!((object.kind, object.version), (3, 1));
    assert_eq!(object.identity.object, 1 << 48 | 7);
    assert_eq!(object.identity.generation, 7);
    assert_eq!(object.identity.set, STORE.0.to_le_bytes());
    let table = Table::read("filemeta.md", "Payload of the sealed object, 88 bytes");
    assert_eq!(object.payload.len(), table.len());
    let value = |field| table.value(field, object.payload);
    assert_eq!(
        (value("class"), value("tag"), value("key_bytes")),
        (1, 3, 7)
    );
    assert_eq!((value("reserved"), value("free")), (0, 0));
    assert_eq!((value("length"), value("references")), (0x1122_3344, 1));
    let owner = table.bytes("key", object.payload);
    assert!(owner.starts_with(b"\x01handle\0"));
}

#[test]
fn the_store_file_is_laid_out_as_documented() {
    let superblock = Superblock {
        store: STORE,
        writes: 2,
        numbers: 1025,
        attribute: c"trusted.hfm".to_owned(),
    };
    let bytes = superblock.encode();
    let object = codec::open_object(&bytes, codec::kind::METADATA_STORE, None).unwrap();
    assert_eq!((object.identity.object, object.identity.generation), (0, 2));
    let table = Table::read("filemeta.md", "72 bytes:");
    assert_eq!(object.payload.len(), table.len());
    assert_eq!(table.value("numbers", object.payload), 1025);
    assert_eq!(table.value("name_bytes", object.payload), 11);
    let name = table.bytes("name", object.payload);
    assert!(name.starts_with(b"trusted.hfm\0"));
}

/// A store as version 1 left it: the files of `golden/v1`, and the attributes of the three files
/// in `golden/v1/attributes`, which had the simulated handles 1 to 3.
#[test]
fn a_store_of_version_1_opens_and_goes_on() {
    let root = format!("{}/tests/golden/v1", env!("CARGO_MANIFEST_DIR"));
    let world = World::new(1);
    let user = world.dir("user");
    let owners = user_files(&world);
    for dir in ["objects", "journal"] {
        for file in std::fs::read_dir(format!("{root}/{dir}")).unwrap() {
            let file = file.unwrap();
            let content = std::fs::read(file.path()).unwrap();
            let name = file.file_name();
            world
                .dir(dir)
                .replace(name.to_str().unwrap(), &content)
                .unwrap();
        }
    }
    for (index, owner) in owners.iter().enumerate() {
        if let Ok(value) = std::fs::read(format!("{root}/attributes/f{index}")) {
            world
                .files()
                .set_attribute(owner, c"trusted.hfm", &value)
                .unwrap();
        }
    }
    let opened = Store::open(&places(&world), Some(STORE), OPTIONS).unwrap();
    assert!(opened.replay.requests > 0, "the journal was not empty");
    expect(&opened.store, &owners);
    assert!(opened.store.check().unwrap().findings.is_empty());
    assert_eq!(opened.notes.len(), 1);
    let mut request = opened.store.request();
    request.put(&owners[2], tag(9), b"more").unwrap();
    request.commit().unwrap();
    expect(&opened.store, &owners);
    drop(user);
}

const OPTIONS: Options = Options {
    segment_bytes: 32 << 10,
    journal_bytes: 32 << 10,
};

fn places(world: &World) -> Places {
    Places {
        files: world.files(),
        objects: world.dir("objects"),
        journal: world.dir("journal"),
    }
}

fn user_files(world: &World) -> Vec<Handle> {
    let user = world.dir("user");
    let make = |index| {
        let name = format!("f{index}");
        user.replace(&name, b"").unwrap();
        user.handle(&name).unwrap()
    };
    (0..3).map(make).collect()
}

fn table_bytes() -> Vec<u8> {
    (0..9000u32).map(|at| (at / 7) as u8).collect()
}

fn expect(store: &Store, owners: &[Handle]) {
    let mut table = table_bytes();
    table[5000..5016].copy_from_slice(b"sixteen bytes on");
    assert_eq!(store.get(&owners[0], tag(1)).unwrap(), table);
    assert_eq!(store.value(&owners[0], tag(2)).unwrap(), b"tiny");
    assert_eq!(store.get(&owners[1], tag(3)).unwrap(), b"descriptor");
    assert_eq!(store.references(&owners[1], tag(3)).unwrap(), 2);
    let quota = SystemName::new("quota").unwrap();
    assert_eq!(store.system(&quota).unwrap(), [5; 100]);
}

/// Writes `golden/v1` anew where HOLDFAST_WRITE_GOLDEN names the directory; else it only shows
/// that this version makes a store with that content.
#[test]
fn this_version_makes_what_the_golden_store_holds() {
    let world = World::new(1);
    let owners = user_files(&world);
    let store = Store::create(&places(&world), STORE, c"trusted.hfm", OPTIONS).unwrap();
    let mut request = store.request();
    request.put(&owners[0], tag(1), &table_bytes()).unwrap();
    request.set_value(&owners[0], tag(2), b"tiny");
    request.share(&owners[1], tag(3), b"descriptor");
    request.put_system(&SystemName::new("quota").unwrap(), &[5; 100]);
    request.commit().unwrap();
    store.checkpoint().unwrap();
    let mut request = store.request();
    request.patch(&owners[0], tag(1), 5000, b"sixteen bytes on");
    request.share(&owners[2], tag(3), b"descriptor");
    request.note(7, b"to do");
    request.commit().unwrap();
    expect(&store, &owners);
    drop(store);
    let Some(root) = std::env::var_os("HOLDFAST_WRITE_GOLDEN") else {
        return;
    };
    let root = std::path::PathBuf::from(root);
    for dir in ["objects", "journal"] {
        std::fs::create_dir_all(root.join(dir)).unwrap();
        let from = world.dir(dir);
        for name in from.list().unwrap() {
            std::fs::write(root.join(dir).join(&name), from.read(&name).unwrap()).unwrap();
        }
    }
    std::fs::create_dir_all(root.join("attributes")).unwrap();
    for (index, owner) in owners.iter().enumerate() {
        if let Ok(value) = world.files().attribute(owner, c"trusted.hfm") {
            std::fs::write(root.join(format!("attributes/f{index}")), value).unwrap();
        }
    }
}
