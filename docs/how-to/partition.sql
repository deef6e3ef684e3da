-- Divides the tables of a Shepherd memory by user into four hash partitions each, in one transaction:
--
--     PGOPTIONS=--search_path=shepherd psql -1 -v ON_ERROR_STOP=1 -f docs/how-to/partition.sql postgresql://…
--
-- Run it as the owner of the tables, with their schema in search_path, while no server runs. It writes every row
-- again. For another number of partitions, change `parts`. Tables that are divided already stay as they are.
-- docs/how-to/scaling.md says when this pays.

SET LOCAL statement_timeout = 0;

DO $$
DECLARE
    parts CONSTANT int := 4;
    -- Divided by user_id, and by tenant, the number of the user.
    by_user CONSTANT text[] := ARRAY['context', 'chunks', 'facts', 'fact_history', 'learned', 'ledger', 'trace',
        'extraction_jobs', 'nodes', 'edges', 'dimensions', 'node_dimensions', 'focused_nodes'];
    by_tenant CONSTANT text[] := ARRAY['context_terms', 'chunk_terms', 'context_changes', 'chunk_changes'];
    name text;
    whole text;
    id_sequence text;
    again text[] := '{}';
    statement text;
    found record;
BEGIN
    IF (SELECT value FROM meta WHERE key = 'user_version') < 7 THEN
        RAISE EXCEPTION 'an older Shepherd made these tables: open them with this one first';
    END IF;

    -- Foreign keys connect tables, so all of them go first and come back last.
    FOR found IN
        SELECT conrelid::regclass AS owner, conname, pg_get_constraintdef(oid) AS definition FROM pg_constraint
        WHERE contype = 'f' AND connamespace = current_schema()::regnamespace AND conparentid = 0
            AND conrelid::regclass::text = ANY (by_user || by_tenant)
    LOOP
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', found.owner, found.conname);
        again := again || format('ALTER TABLE %s ADD CONSTRAINT %I %s', found.owner, found.conname,
            found.definition);
    END LOOP;

    FOR name IN
        SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'
            AND relname = ANY (by_user || by_tenant)
    LOOP
        EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', name);
        whole := name || '_whole';
        -- What the new table needs when its rows are there: keys, indexes, triggers, owner and rights.
        FOR statement IN
            SELECT format('ALTER TABLE %I ADD CONSTRAINT %I %s', name, conname, pg_get_constraintdef(oid))
            FROM pg_constraint WHERE conrelid = name::regclass AND contype IN ('p', 'u')
            UNION ALL
            SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = name::regclass
                AND NOT EXISTS (SELECT 1 FROM pg_constraint WHERE conindid = indexrelid)
            UNION ALL
            SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid = name::regclass AND NOT tgisinternal
            UNION ALL
            SELECT format('GRANT %s ON %I TO %s', privilege_type, name,
                CASE WHEN grantee = 0 THEN 'PUBLIC' ELSE quote_ident(grantee::regrole::text) END)
            FROM pg_class, aclexplode(relacl) WHERE oid = name::regclass AND grantee <> relowner
            UNION ALL
            SELECT format('ALTER TABLE %I OWNER TO %s', name, relowner::regrole) FROM pg_class
            WHERE oid = name::regclass AND relowner <> current_user::regrole
        LOOP
            again := again || statement;
        END LOOP;

        EXECUTE format('ALTER TABLE %I RENAME TO %I', name, whole);
        EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE)'
            ' PARTITION BY HASH (%I)', name, whole,
            CASE WHEN name = ANY (by_tenant) THEN 'tenant' ELSE 'user_id' END);
        FOR part IN 0 .. parts - 1 LOOP
            EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES WITH (MODULUS %s, REMAINDER %s)',
                name || '_p' || part, name, parts, part);
        END LOOP;
        EXECUTE format('INSERT INTO %I SELECT * FROM %I', name, whole);
        FOR id_sequence IN
            SELECT s.oid::regclass FROM pg_depend d JOIN pg_class s ON s.oid = d.objid AND s.relkind = 'S'
            WHERE d.refobjid = whole::regclass AND d.deptype = 'a'
        LOOP
            EXECUTE format('ALTER SEQUENCE %s OWNED BY %I.id', id_sequence, name);
        END LOOP;
        EXECUTE format('DROP TABLE %I', whole);
    END LOOP;

    -- Foreign keys were noted first, and need the keys of the tables that they name.
    FOR statement IN
        SELECT noted FROM unnest(again) WITH ORDINALITY AS n(noted, place)
        ORDER BY noted LIKE '%FOREIGN KEY%', noted NOT LIKE '%PRIMARY KEY%', place
    LOOP
        EXECUTE statement;
    END LOOP;

    FOREACH name IN ARRAY by_user || by_tenant LOOP
        EXECUTE format('ANALYZE %I', name);
    END LOOP;
END $$;
